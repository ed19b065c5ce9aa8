"""What a broker knows and holds: its session, its connections, what it found out about the target."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from signal import Signals

from reach.broker.attempts import Attempts
from reach.broker.audit import AuditEntry, AuditLog
from reach.broker.connector import Connector
from reach.broker.folder_keeper import FolderKeeper
from reach.broker.local_numbers import LocalNumbers
from reach.broker.pool import Pool
from reach.broker.remote_group import END, RemoteGroup, Step, signal_script
from reach.broker.remote_script import new_token
from reach.broker.remote_words import quote
from reach.broker.running import Note, RunningCommands
from reach.broker.skeleton import listing_command
from reach.broker.survey import Facts, survey
from reach.broker.threads import Threads
from reach.broker.worker import Worker
from reach.errors import BrokerUnavailableError, ReachError, SessionError
from reach.paths import Paths, operator_home
from reach.session import Session, SessionStore
from reach.session.record import RecordError, encode_record, parse_record
from reach.ssh.operator import NobodyThere, Operator
from reach.ssh.process import Connection
from reach.ssh.transport_choice import TransportChoice

REFILLERS = 3
SIGNAL_TIMEOUT_S = 10.0
END_TIMEOUT_S = 4.0
"""How long an ending broker tries to end the commands that run."""
LISTING_TIMEOUT_S = 10.0
SPARE_TIMEOUT_S = 5.0
"""How long a listing of folders waits for a worker that no command needs."""
DRAIN_TIMEOUT_S = 2.0
"""How long an ending broker waits for commands that it has ended to be answered for."""

log = logging.getLogger("reach.broker")


class Broker:
    """Everything that the requests of one session share. Thread-safe."""

    def __init__(self, paths: Paths, session: Session) -> None:
        self.paths = paths
        self.session = session
        self.audit = AuditLog(paths.audit_log(session.name))
        self.started = time.time()
        self.running = RunningCommands(paths.session_state(session.name) / "running")
        self.numbers = LocalNumbers()
        self.folder_keeper = FolderKeeper(self._list_folders)
        self._local_paths = [str(paths.session_state(session.name)), str(operator_home())]
        self._connector = Connector(paths, session)
        self.pool = Pool(lambda: self._connected(self._connector.connect(NobodyThere())))
        self._facts: Facts | None = None
        self._file_seen: tuple[int, int] | None = None
        """What told the session's file from others when it was last read."""
        self._attempts = Attempts()
        self._threads = Threads()
        self._in_flight = 0
        self._last_use = time.monotonic()
        self._use = threading.Condition()
        self.running.adopt(self._record_left)
        for _ in range(REFILLERS):
            threading.Thread(target=self.pool.keep_warm, name="refill", daemon=True).start()

    @property
    def folder(self) -> str:
        """The session's folder on the target, absolute."""
        return self._facts.folder if self._facts else "/"

    @property
    def facts(self) -> Facts | None:
        return self._facts

    def is_of_session(self) -> bool:
        """Whether the session's file is still that of this broker. One that was removed and bound anew may mean another
        target; no file, or a damaged one, means none."""
        name = self.session.name
        try:
            status = os.stat(self.paths.session_file(name))
            if (seen := (status.st_ino, status.st_mtime_ns)) == self._file_seen:
                return True
            kept = SessionStore(self.paths).load(name)
        except (OSError, SessionError):
            return True
        is_ours = (kept.target, kept.created) == (self.session.target, self.session.created)
        self._file_seen = seen if is_ours else None
        return is_ours

    def check_session(self) -> None:
        """Raises: BrokerUnavailableError where the session is another by now: this broker must serve nobody then."""
        if not self.is_of_session():
            raise BrokerUnavailableError(
                "the session was bound anew while it was up, and what served it ends", fix="type that again"
            )

    @property
    def transport(self) -> TransportChoice | None:
        """By what the last connection was made, or tried, and why by that; None before the first."""
        return self._connector.choice

    def local_paths(self) -> list[str]:
        """Local places whose names never go to the target."""
        return self._local_paths

    def connect_facts(self, operator: Operator | None = None) -> Facts:
        """Connect and look at the target, unless that was done. OPERATOR: also connect anew where no connection is.

        Raises: TransportError's kinds; SessionError when the session's folder is not there.
        """
        facts = self._facts
        if facts is not None and (operator is None or self.pool.connections()):
            return facts
        # an operator's attempt asks what the others could not, so it never fails as they did
        with self._attempts.alone(share_failure=operator is None):
            facts = self._facts
            if facts is None:
                facts = self._first_connection(operator or NobodyThere())
            elif operator is not None and not self.pool.connections():
                self.pool.adopt(self._connected(self._connector.connect(operator)), facts.shell, facts.environment)
            return facts

    def _first_connection(self, operator: Operator) -> Facts:
        connection = self._connector.connect(operator)
        try:
            facts = survey(connection, self._connector.target.folder)
        except BaseException:
            connection.close()
            raise
        self.pool.adopt(self._connected(connection), facts.shell, facts.environment)
        self._facts = facts
        self._remember(facts)
        return facts

    def _remember(self, facts: Facts) -> None:
        self.session = replace(
            self.session,
            folder=facts.folder,
            hostname=facts.hostname,
            login_shell=facts.login_shell,
            shell=facts.shell,
        )
        try:
            SessionStore(self.paths).save(self.session)
        except (OSError, ReachError, ValueError) as error:
            log.warning("the session's file can't be written: %s", error)

    # --- the ends of commands

    @contextmanager
    def command_runs(self, worker: Worker, entry: AuditEntry) -> Iterator[None]:
        """Until the end of this context WORKER's command may run; if it then still may, it becomes an orphan. ENTRY is
        recorded by a successor where this broker is killed meanwhile."""
        self.note_use()
        self.running.begin(worker.group, encode_record(entry).decode())
        try:
            yield
        finally:
            self.note_use()
            self.running.end(worker.group, is_known=worker.process.has_ended)
            if not worker.process.has_ended and self.pool.connections():
                self._threads.submit(self._end_orphans)  # the next connection was there first

    def signal_group(self, worker: Worker, number: int) -> None:
        """Send a signal to the process group of the command that WORKER became, without waiting for it."""
        try:
            name = Signals(number).name.removeprefix("SIG")
        except ValueError:
            return
        self._threads.submit(lambda: self._signal([worker.group], [Step(name)]))

    def end_group(self, worker: Worker) -> None:
        """End that process group: TERM, then KILL after a grace."""
        self._threads.submit(lambda: self._signal([worker.group], END))

    def _signal(self, groups: Sequence[RemoteGroup], steps: Sequence[Step]) -> bool:
        """Take STEPS with GROUPS through a worker; False where none can be had."""
        try:
            helper = self.pool.take()
        except ReachError as error:
            log.warning("%d process groups on the target could not be signalled: %s", len(groups), error)
            return False
        try:
            done = new_token()
            helper.run_script(signal_script(groups, steps, done), done, SIGNAL_TIMEOUT_S)
        except ReachError as error:
            log.warning("%d process groups on the target may not have been signalled: %s", len(groups), error)
            return False
        finally:
            self.pool.discard(helper)
        return True

    def _connected(self, connection: Connection) -> Connection:
        """A new connection: end over it what a dead broker or a lost connection left running."""
        self.running.adopt(self._record_left)
        if self.running.orphans():
            self._threads.submit(self._end_orphans)
        return connection

    def _record_left(self, note: Note) -> None:
        """Record what a broker that was killed could not, unless it died just after it had."""
        try:
            entry = parse_record(AuditEntry, note)
        except RecordError:
            return
        if not self.audit.has(entry):
            self.audit.append(entry)

    def _end_orphans(self) -> None:
        orphans = self.running.orphans()
        if orphans and self._signal(orphans, END):
            log.info("%d commands that nobody waited for any more were ended", len(orphans))
            self.running.forget(orphans)

    # --- folders

    def _list_folders(self) -> bytes | None:
        """What the folders below the session's are now, by a worker that no command waits for."""
        where, done = quote(self.folder.encode("utf-8", "surrogateescape")), new_token()
        script = b"(command cd -- %s && {\n%s\n}) </dev/null; printf %%s %s"
        script %= (where, listing_command().encode(), done.encode())
        worker = None
        try:
            with self.pool.lent(SPARE_TIMEOUT_S) as worker:
                return worker.run_script(script, done, LISTING_TIMEOUT_S) if worker else None
        except ReachError as error:
            log.info("the target's folders could not be listed: %s", error)
            if worker:
                self.end_group(worker)
            return None

    # --- use

    def use_begins(self) -> None:
        with self._use:
            self._in_flight += 1

    def use_ends(self) -> None:
        with self._use:
            self._in_flight -= 1
            self._use.notify_all()

    def note_use(self) -> None:
        """Somebody works with this session now."""
        self._last_use = time.monotonic()

    @property
    def in_flight(self) -> int:
        """How many requests are being served: the broker does not end by itself meanwhile."""
        return self._in_flight

    def idle_s(self) -> float:
        """Seconds since the last command ended; 0 while one runs."""
        return 0.0 if self.running.running() else time.monotonic() - self._last_use

    def submit(self, work: Callable[[], None]) -> None:
        """Run WORK in a thread of its own. Raises: RuntimeError when there is none."""
        self._threads.submit(work)

    def end_commands(self) -> None:
        """End every command that runs and wait a little for its answer; what can't be reached stays an orphan."""
        running, done = self.running.running(), threading.Event()

        def end() -> None:
            self._signal(running, END)
            done.set()

        if running:
            self._threads.submit(end)
            done.wait(END_TIMEOUT_S)  # a target that can't be reached can't be waited for
        with self._use:
            self._use.wait_for(lambda: not self._in_flight, DRAIN_TIMEOUT_S)

    def close(self) -> None:
        self.folder_keeper.close()
        self.pool.close()
        self._connector.close()
        self.running.close()
