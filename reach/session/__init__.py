"""Sessions: the binding of a name to a target and a folder, kept in a file."""

from reach.session.models import SESSION_SCHEMA, Session
from reach.session.store import SessionStore

__all__ = ["SESSION_SCHEMA", "Session", "SessionStore"]
