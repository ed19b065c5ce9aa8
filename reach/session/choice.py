"""Which session is meant where none is named."""

from __future__ import annotations

from collections.abc import Callable

from reach.errors import SessionNotFoundError
from reach.paths import Paths
from reach.session.store import SessionStore


def choose_session(paths: Paths, name: str | None, *, rather: Callable[[str], bool] = lambda name: True) -> str:
    """NAME, which must exist, or the only session, or the one used last. RATHER: which are meant before any other.

    Raises: SessionNotFoundError, SessionRecordError.
    """
    store = SessionStore(paths)
    if name is not None:
        return store.load(name).name
    names = store.names()
    if not names:
        raise SessionNotFoundError(None)
    return max(names, key=lambda each: (rather(each), _last_use(paths, each)))


def _last_use(paths: Paths, name: str) -> float:
    """Seconds since the epoch: the latest command, or the latest connection where there was none."""
    times = []
    for path in (paths.session_state(name) / "session.json", paths.audit_log(name)):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
