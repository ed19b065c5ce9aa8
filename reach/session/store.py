"""Session files: made, read, listed and removed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from reach.errors import (
    ConfigError,
    SessionExistsError,
    SessionNotFoundError,
    SessionRecordError,
    TargetSyntaxError,
)
from reach.paths import Paths, ensure_private_dir, write_private
from reach.session.models import NAME, SESSION_SCHEMA, Session
from reach.session.record import RecordError, encode_record, load_json, parse_record
from reach.target import Target, parse_target

MAX_NUMBERED_VARIANTS = 1000
SHIM_FOLDER, SHIM_CODE_FOLDER = "bin", "lib"
"""Below a session's state: its own shim, and the code of all its shims."""


class SessionStore:
    """All sessions below one state folder."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def names(self) -> list[str]:
        folder = self._paths.state / "sessions"
        try:
            return sorted(p.parent.name for p in folder.glob("*/session.json")) if folder.is_dir() else []
        except OSError as error:
            raise ConfigError(
                f"{str(folder)!r} can't be read: {error.strerror}", fix="set REACH_HOME to a folder of yours"
            ) from None

    def load_all(self) -> Iterator[Session | SessionRecordError]:
        """Every session, or the reason why its file can't be used."""
        for name in self.names():
            try:
                yield self.load(name)
            except SessionRecordError as error:
                yield error

    def load(self, name: str) -> Session:
        """Raises: SessionNotFoundError; SessionRecordError for a corrupt file or one of a newer reach."""
        path = self._paths.session_file(name)
        if not NAME.fullmatch(name):
            raise SessionNotFoundError(name)
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise SessionNotFoundError(name) from None
        except OSError as error:
            raise SessionRecordError(f"session {name!r}: {path}: {error.strerror}") from None
        return _parse_session(name, text)

    def save(self, session: Session) -> None:
        ensure_private_dir(self._paths.session_state(session.name))
        write_private(self._paths.session_file(session.name), encode_record(session, indent=2) + b"\n")

    def bind(self, target: Target, name: str | None = None) -> Session:
        """The session for TARGET: the one that already has it, or a new one, saved.

        A name given by the operator must be free or already hold this target. Without one, the target names the
        session and a name held by another target gets a number (`build-box-2`).

        Raises: SessionExistsError, SessionRecordError.
        """
        return self.find_or_make(target, name)[0]

    def find_or_make(self, target: Target, name: str | None = None) -> tuple[Session, bool]:
        """As bind; and whether the session is new, made by this call and no other."""
        with self._taking_turns():
            known = self.names()
            session = self._bind(target, name)
            return session, session.name not in known

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        """Two that bind at once must not both find a name free: the commands of one would run on the other's target."""
        folder = ensure_private_dir(self._paths.state / "sessions")
        with open(os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _bind(self, target: Target, name: str | None) -> Session:
        spelling = str(target)
        if name is not None:
            existing = self._load_if_there(name)
            if existing and not _is_of(existing, target):
                raise SessionExistsError(
                    f"session {name!r} is bound to {existing.target}",
                    fix=f"choose another name, or type: reach down {name} --forget",
                )
            return existing or self._create(name, spelling)
        for number in range(1, MAX_NUMBERED_VARIANTS):
            candidate = target.session_name + (f"-{number}" if number > 1 else "")
            try:
                existing = self._load_if_there(candidate)
            except SessionRecordError:
                if number == 1:
                    raise
                continue  # whatever held that number; the name itself is for the operator to mend
            if existing is None:
                return self._create(candidate, spelling)
            if _is_of(existing, target):
                return existing
        raise SessionExistsError(f"{MAX_NUMBERED_VARIANTS} sessions are named {target.session_name}", fix="give --name")

    def remove(self, name: str) -> None:
        """Remove everything kept for session NAME, whose broker has ended; its file may be damaged.

        Its shim stays, and refuses: a shell or a harness wired with it by hand would find this machine's bash next.

        Raises: SessionNotFoundError.
        """
        if name not in self.names():
            raise SessionNotFoundError(name)
        folder = self._paths.session_state(name)
        for kept in sorted(folder.iterdir(), key=lambda each: each.name == "session.json"):  # the file last
            if kept.is_symlink() or not kept.is_dir():
                kept.unlink()
            elif kept.name not in (SHIM_FOLDER, SHIM_CODE_FOLDER):
                shutil.rmtree(kept)
        if not any(folder.iterdir()):
            folder.rmdir()
        shutil.rmtree(self._paths.session_runtime(name), ignore_errors=True)
        for link in self._paths.home_links.glob(f"{name}-*"):
            if link.name.rpartition("-")[0] == name:
                link.unlink(missing_ok=True)

    def _load_if_there(self, name: str) -> Session | None:
        try:
            return self.load(name)
        except SessionNotFoundError:
            return None

    def _create(self, name: str, target: str) -> Session:
        try:
            session = Session(name=name, target=target, created=datetime.now(UTC))
        except RecordError:
            raise ConfigError(
                f"{name!r} is no session name",
                fix="use up to 40 letters, digits, dots, dashes and underscores, a letter or digit first",
            ) from None
        self.save(session)
        return session


def _is_of(session: Session, target: Target) -> bool:
    """Whether SESSION is bound to TARGET, in whichever spelling its file has it."""
    try:
        return parse_target(session.target) == target
    except TargetSyntaxError:
        return False


def _parse_session(name: str, text: bytes) -> Session:
    try:
        raw = load_json(text)
        found = raw.get("schema_version") if isinstance(raw, dict) else None
        if isinstance(found, int) and found > SESSION_SCHEMA:
            raise SessionRecordError(
                f"session {name!r} was written by a newer reach (schema {found}, this one reads {SESSION_SCHEMA})",
                fix="upgrade reach, or bind the target again under another name",
            )
        session = parse_record(Session, raw, is_closed=True)
    except RecordError as error:
        raise SessionRecordError(
            f"the file of session {name!r} is damaged ({error})",
            fix=f"type: reach down {name} --forget, then reach up TARGET",
        ) from None
    if session.name != name:
        raise SessionRecordError(f"the file of session {name!r} is that of {session.name!r}")
    return session
