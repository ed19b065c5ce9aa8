"""One command, from the shim's request to its answer and its line in the audit log."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reach.broker.audit import AuditEntry, now, printable
from reach.broker.environment import forwarded_environment, is_hook
from reach.broker.folders import target_folder
from reach.broker.local_numbers import number_functions
from reach.broker.marks import Marks
from reach.broker.relay import Course, Relay
from reach.broker.remote_script import LATE_NAMES, NO_ROOM, Call, call_script
from reach.broker.sink import Sink
from reach.broker.source import Source, is_null_device
from reach.broker.terminal import is_terminal, raw_mode, terminal_size
from reach.broker.worker import Worker
from reach.broker.wrapper import SideFile, adapt, write_side_file
from reach.errors import HarnessError, ReachError, SessionError
from reach.session.launch import Launch, load_launch
from reach.ssh.process import STDERR, STDOUT, PtySize
from reach.ssh.remote_text import printable as escaped
from reach.wire.frames import Answer, RunRequest, write_frame

if TYPE_CHECKING:
    from reach.broker.state import Broker

UNKNOWN_SIGNAL_STATUS = 255
"""When the server does not name the signal that ended a command."""

_BROKER_DIED = {"outcome": "unknown", "reason": "reach's broker was killed while it ran; it may have run"}

log = logging.getLogger("reach.call")


@dataclass(frozen=True)
class Streams:
    """What the caller's standard descriptors are."""

    pty: PtySize | None
    """All are a terminal of this size."""
    null_input: bool
    null_errors: bool
    """Under a pty: standard error alone is /dev/null."""
    merged: bool
    """Standard output and standard error are one open file."""


class RunHere(Exception):
    """The shim may run this on its own machine."""


class ServedCall:
    """Runs one request on the target and answers it once."""

    def __init__(self, broker: Broker, peer: socket.socket, request: RunRequest, descriptors: list[int]) -> None:
        self._broker = broker
        self._peer = peer
        self._request = request
        self._descriptors = descriptors
        self._launch: Launch | None = None
        self._folder = b""
        self._worker: Worker | None = None
        self._side_file: SideFile | None = None
        self._out: Sink | None = None
        self._is_sent = False
        """Whether any of the command may have reached the target: from then on nothing says that it did not run."""
        self._time, self._started = now(), time.monotonic()
        self._terminal = ExitStack()

    def run(self) -> None:
        """Serve the request. Owns the descriptors; the peer stays the caller's."""
        try:
            with ExitStack() as held:
                held.callback(self._close_descriptors)
                held.callback(self._terminal.close)
                try:
                    self._serve(held)
                except RunHere:
                    self._answer(Answer.LOCAL)
                except Exception as error:  # a request's boundary: whatever it was, the shim and the log are told
                    known = error if isinstance(error, ReachError) else self._unforeseen(error)
                    if self._is_sent:
                        self._lose(known)
                    else:
                        self._refuse(known)
        except OSError as error:
            log.warning("a call ended early: %s", error)

    @staticmethod
    def _unforeseen(error: Exception) -> ReachError:
        log.exception("a call ended early")
        reason = error.strerror if isinstance(error, OSError) else None
        return SessionError(f"the broker met {reason or str(error) or type(error).__name__}")

    def _serve(self, held: ExitStack) -> None:
        if len(self._descriptors) != 3:
            raise SessionError("the request came without the three standard descriptors")
        self._check()
        streams = self._inspect()
        worker = self._worker = self._broker.pool.take(pty=streams.pty)
        held.callback(self._broker.pool.discard, worker)
        if not self._answer(Answer.ACCEPTED):
            return
        call = self._call(worker, streams)
        script = call_script(call, worker.token, pty=streams.pty is not None, posix=worker.is_posix_only)
        relay = self._relay(held, worker, streams)
        note = self._entry(Course(), _BROKER_DIED, duration_ms=None)
        held.enter_context(self._broker.command_runs(worker, note))
        self._is_sent = True
        worker.send_script(script)
        self._broker.pool.plan_refill()
        self._broker.numbers.note(self._request.pid, worker.pid)
        if self._launch and self._launch.keeps_folders:
            held.enter_context(self._broker.folder_keeper.command_runs(self._launch.workspace))
        relay.run(self._finish)

    def _inspect(self) -> Streams:
        """What the caller's descriptors are. The target's terminal carries no second stream: a caller who keeps its
        errors apart, in more than the trash, gets pipes."""
        stdin, stdout, stderr = self._descriptors
        null_errors = is_null_device(os.fstat(stderr))
        is_terminal_all = is_terminal(stdin) and is_terminal(stdout) and (is_terminal(stderr) or null_errors)
        return Streams(
            pty=PtySize(*terminal_size(stdin), self._term()) if is_terminal_all else None,
            null_input=is_null_device(os.fstat(stdin)),
            null_errors=is_terminal_all and null_errors,
            merged=not is_terminal_all and os.path.sameopenfile(stdout, stderr),
        )

    def _check(self) -> None:
        """Raises: what keeps this request from running on the target."""
        request, session = self._request, self._broker.session
        if request.session != session.name:
            raise SessionError(f"this is the broker of session {session.name!r}")
        self._broker.check_session()
        if request.launch:
            self._launch = load_launch(self._broker.paths, session.name, request.launch)
            if self._launch is None:
                raise SessionError("the launch that this shell belongs to has ended", fix="launch the harness again")
            if is_hook(request.environment):
                if self._launch.local_hooks:
                    raise RunHere
                raise HarnessError("a hook of the harness is never sent to the target", fix="launch with --local-hooks")
        self._broker.connect_facts()
        workspace = self._launch.workspace if self._launch else None
        self._folder = target_folder(request.cwd, workspace, self._broker.folder)

    def _call(self, worker: Worker, streams: Streams) -> Call:
        request, broker = self._request, self._broker
        argv = list(request.argv)
        functions = b""
        if request.command is not None:
            adapted = adapt(request.command, posix=worker.is_posix_only)
            argv[request.command_index], self._side_file = adapted.text, adapted.side_file
            functions = number_functions(request.command, broker.numbers.meant_by(request.command))
        environment = forwarded_environment(request.environment, self._launch, broker.local_paths())
        if streams.pty:
            environment[b"TERM"] = streams.pty.term.encode()
        return Call(
            folder=self._folder,
            argv=argv,
            command_index=request.command_index,
            environment=self._late_environment() | environment,
            keeps_side_file=self._side_file is not None,
            merges_streams=streams.merged,
            null_input=streams.null_input,
            null_errors=streams.null_errors,
            functions=functions,
        )

    def _late_environment(self) -> dict[bytes, bytes]:
        """What of the target's login environment its waiting shell could not bear."""
        login = self._broker.facts.environment if self._broker.facts else {}
        return {name: login[name] for name in LATE_NAMES if name in login}

    def _relay(self, held: ExitStack, worker: Worker, streams: Streams) -> Relay:
        """Give each of the caller's descriptors to what reads or writes it."""
        waiting = self._descriptors
        source = Source(waiting.pop(0))
        held.callback(source.close)
        out = self._out = Sink(waiting.pop(0))
        held.callback(out.close)
        if streams.pty or streams.merged:
            err = out
            os.close(waiting.pop(0))
        else:
            err = Sink(waiting.pop(0), may_lose=True)
            held.callback(err.close)
        if streams.pty:
            self._terminal.enter_context(raw_mode(source.fileno()))
        return Relay(
            worker.process,
            Marks(worker.token, expects_side=self._side_file is not None),
            peer=self._peer,
            harness=self._harness_end(held),
            source=source,
            sinks={STDOUT: out, STDERR: err},
            pty=streams.pty is not None,
            merged=streams.merged,
            on_signal=lambda number: self._broker.signal_group(worker, number),
            on_abandoned=lambda: self._abandon(worker),
        )

    def _harness_end(self, held: ExitStack) -> int | None:
        """A descriptor that is readable once the launch's harness has ended; None where there is none to be had."""
        if self._launch is None:
            return None
        try:
            handle = os.pidfd_open(self._launch.pid)
        except (OSError, AttributeError):  # it has ended already, or this system tells of no other's end
            return None
        held.callback(os.close, handle)
        return handle

    def _abandon(self, worker: Worker) -> None:
        """The shim or its harness is gone: the terminal is the caller's again, at once."""
        self._terminal.close()
        self._broker.end_group(worker)

    def _term(self) -> str:
        return self._request.environment.get(b"TERM", b"xterm-256color").decode("ascii", "replace")

    # --- the answer

    def _finish(self, course: Course) -> None:
        """Answer for a command whose script was sent."""
        self._terminal.close()
        if self._side_file and course.side is not None:
            self._keep_side_file(self._side_file, course.side.replace(b"\r\n", b"\n"))
        answer, ending = self._judge(course)
        self._record(course, ending)
        self._answer(answer)
        if self._launch and self._launch.keeps_folders:
            self._broker.folder_keeper.look(self._launch.workspace)

    def _keep_side_file(self, side: SideFile, content: bytes) -> None:
        workspace = self._launch.workspace if self._launch else None
        # the harness takes the number that it knows out of the list: here that is the shim's
        pids = {b"%d" % self._worker.pid: b"%d" % self._request.pid} if self._worker else {}
        shown = write_side_file(side, content, workspace, self._broker.folder, pids)
        self._broker.numbers.came_from_target(shown)

    def _judge(self, course: Course) -> tuple[bytes, dict[str, Any]]:
        """The answer to the shim, and what the audit log says of it."""
        exited = course.exited
        if course.refusal is not None:
            reason = self._refusal(course.refusal)
            return _failure(reason), {"outcome": "refused", "reason": reason}
        is_whole = course.output_ended or not (course.closed and course.closed.lost)
        if exited is not None and is_whole and not course.started:
            # its own exit status is no command's: a shell that was killed while it waited, for instance
            reason = "the target's shell ended before it began the command"
            if course.output_ended:
                return _failure(f"{reason}; it did not run"), {"outcome": "refused", "reason": reason}
            return _failure(f"{reason}; it may have run"), {"outcome": "unknown", "reason": reason}
        if exited is not None and is_whole:
            if exited.status == 0 and self._out and self._out.failure:
                reason = f"it ran, but not all of its output could be written here: {self._out.failure}"
                return _failure(reason), {"outcome": "exited", "exit_status": 0, "reason": reason}
            if exited.status is not None:
                return Answer.STATUS + bytes([exited.status]), {
                    "outcome": "exited",
                    "exit_status": exited.status,
                }
            number = _signal_number(exited.signal)
            answer = Answer.SIGNAL + bytes([number]) if number else Answer.STATUS + bytes([UNKNOWN_SIGNAL_STATUS])
            return answer, {"outcome": "signalled", "signal": printable((exited.signal or "").encode())}
        reason = (
            "the connection was lost after the command ended, and some of its output with it"
            if exited
            else "the connection was lost while it ran; how it ended is not known"
            if course.started
            else "the connection was lost; it may have run"
        )
        return _failure(reason + ", and is not run again"), {"outcome": "unknown", "reason": reason}

    def _refusal(self, said: bytes) -> str:
        if said[:1] == NO_ROOM:
            return "the target has no folder where a command of this length could be put; it did not run"
        because = said[1:].decode("utf-8", "replace").strip().rpartition(": ")[2]
        folder = escaped(printable(self._folder))
        if because in ("", "No such file or directory"):
            return f"the folder '{folder}' is not there on the target; it did not run"
        return f"the folder '{folder}' on the target can't be entered ({because[:100]}); it did not run"

    def _refuse(self, error: ReachError) -> None:
        message = f"{error.message}; it did not run" if "did not run" not in error.message else error.message
        text = f"{message}; {error.fix}" if error.fix else message
        self._record(Course(), {"outcome": "refused", "reason": text})
        self._answer(_failure(text))

    def _lose(self, error: ReachError) -> None:
        """Answer for a command of which some was sent and then nothing more could be."""
        self._terminal.close()
        reason = f"{error.message}; it may have run"
        self._record(Course(), {"outcome": "unknown", "reason": reason})
        self._answer(_failure(reason + ", and is not run again"))

    def _answer(self, answer: bytes) -> bool:
        try:
            write_frame(self._peer, answer)
        except OSError:
            return False  # the shim is gone: nobody waits
        return True

    def _record(self, course: Course, ending: dict[str, Any]) -> None:
        duration_ms = round((time.monotonic() - self._started) * 1000)
        self._broker.audit.append(self._entry(course, ending, duration_ms=duration_ms))

    def _entry(self, course: Course, ending: dict[str, Any], *, duration_ms: int | None) -> AuditEntry:
        request, session = self._request, self._broker.session
        command = request.command
        return AuditEntry(
            time=self._time,
            session=session.name,
            target=session.target,
            launch=request.launch or None,
            harness=self._launch.harness if self._launch else None,
            pid=request.pid,
            remote_pid=self._worker.pid if self._worker else None,
            command="(standard input)" if command is None else printable(command),
            folder=printable(self._folder),
            abandoned=course.abandoned,
            duration_ms=duration_ms,
            bytes_in=course.bytes_in,
            bytes_out=course.bytes_out,
            bytes_err=course.bytes_err,
            **ending,
        )

    def _close_descriptors(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def _failure(text: str) -> bytes:
    return Answer.FAILURE + text.encode("utf-8", "replace")


def _signal_number(name: str | None) -> int | None:
    """The number on this machine of a signal named as in RFC 4254 section 6.10."""
    member = signal.Signals.__members__.get(f"SIG{name}")
    return int(member) if member is not None else None
