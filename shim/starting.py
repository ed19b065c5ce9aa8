"""Starting the broker from a shim: once, without prompts, within a few seconds. Off the usual path."""

import _signal  # type: ignore[import-not-found,unused-ignore]
import _socket
import posix

from shim import client
from shim.place import Place


def start_broker(place: Place) -> "_socket.socket":
    """Run reach's own starter and connect, or end this shim with the starter's one line as the reason."""
    code = (
        f"import sys; sys.path[:] = {place.import_path!r}; "
        f"from reach.broker.start import main; main({place.session!r}, {place.roots!r})"
    )
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # a caller that ignores it leaves nothing to wait for
    reader, writer = posix.pipe()
    null = posix.open("/dev/null", posix.O_RDWR)
    actions = [
        (posix.POSIX_SPAWN_DUP2, null, 0),
        (posix.POSIX_SPAWN_DUP2, null, 1),
        (posix.POSIX_SPAWN_DUP2, writer, 2),
    ]
    try:
        child = posix.posix_spawn(place.python, [place.python, "-I", "-c", code], posix.environ, file_actions=actions)
    except OSError as error:
        place.refuse(f"can't start the broker: {place.python}: {posix.strerror(error.errno or 0)}; it did not run")
    posix.close(writer)
    said = b""
    while chunk := posix.read(reader, 65536):
        said += chunk
    _, status = posix.waitpid(child, 0)
    try:
        return client.connect(place.socket)
    except client.Unreachable as reason:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        because = lines[-1] if lines and status else f"the broker is not there: {reason}"
        place.refuse(f"{because}; it did not run")
