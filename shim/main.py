"""What a shim does: forward, hand a script file to the real shell, or end with 125 and one line."""

import posix
import sys

from shim import client, local_shell
from shim.arguments import FORWARD, PASS, parse_bash_arguments
from shim.place import Place


def main(place: Place) -> None:
    """Run as `bash`. Never returns, and never runs a command here that belongs on the target."""
    client.open_standard_descriptors()
    arguments = sys.argv[1:]
    plan, forwarded, command_index = parse_bash_arguments(arguments)
    if plan == PASS and not (command_index >= 0 and local_shell.is_stream(arguments[command_index])):
        place.refuse(local_shell.exec_real_bash(arguments))
    if plan != FORWARD:
        place.refuse("commands from an open descriptor can't be sent to the target; nothing ran; use bash -c")
    try:
        cwd = posix.getcwd().encode(*_CODEC)
    except OSError:
        place.refuse("the local working folder no longer exists; it did not run; cd to one that does")
    request = client.encode_run(
        place.session.encode(),
        place.launch.encode(),
        cwd,
        command_index,
        [argument.encode(*_CODEC) for argument in forwarded],
        local_shell.inherited_environment(),
    )
    if len(request) > client.MAX_REQUEST_BYTES:
        size = f"the command and its environment take {len(request)} bytes"
        place.refuse(f"{size}, over the limit of 16 MiB; it did not run")
    kind, body = _call(place, request)
    if not kind and not body:  # a broker that was ending: nothing was sent on, so asking the next one is safe
        kind, body = _call(place, request)
    _finish(place, arguments, kind, body)


def _call(place: Place, request: bytes) -> tuple[bytes, bytes]:
    try:
        connection = client.connect(place.socket)
    except client.Unreachable:
        from shim.starting import start_broker

        connection = start_broker(place)
    answer = client.call(connection, request)
    connection.close()
    return answer


def _finish(place: Place, arguments: list[str], kind: bytes, body: bytes) -> None:
    if kind == client.ANSWER_STATUS and len(body) == 1:
        posix._exit(body[0])
    if kind == client.ANSWER_SIGNAL and len(body) == 1:
        client.die_by_signal(body[0])
    if kind == client.ANSWER_LOCAL:
        place.refuse(local_shell.exec_real_bash(arguments))
    if kind == client.ANSWER_FAILURE:
        place.refuse(body.decode("utf-8", "replace"))
    if not kind:
        from shim.lost_terminal import make_usable

        make_usable()
    if not kind and not body:
        place.refuse("the broker went away before it took the command; it did not run")
    place.refuse("the broker went away; the command may have run, and is not run again")


_CODEC = (sys.getfilesystemencoding(), "surrogateescape")
