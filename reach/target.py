"""The spellings of a target, read and written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from reach.errors import TargetSyntaxError

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?|\[?[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]?")
_USER = re.compile(r"[^\s@:/\x00-\x1f\x7f-]([^\s:/\x00-\x1f\x7f])*")
_SPELLINGS = "HOST, [USER@]HOST:[FOLDER], ssh://[USER@]HOST[:PORT][/FOLDER] or demo:"


@dataclass(frozen=True)
class Target:
    """Where commands are to run: what the operator wrote, nothing resolved."""

    host: str
    """An ssh_config alias, a name or an address; `demo` with is_demo."""
    user: str | None = None
    port: int | None = None
    folder: str | None = None
    """A path on the target: absolute, or relative to the login folder; may begin with `~`. None is the login
    folder."""
    is_demo: bool = False

    def __str__(self) -> str:
        """The canonical spelling; parse_target reads it back to an equal Target."""
        if self.is_demo:
            return f"demo:{self.folder or ''}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        if self.port is not None:
            login = f"{quote(self.user, safe='')}@" if self.user else ""
            return f"ssh://{login}{host}:{self.port}{self._url_path()}"
        if self.folder is None and not user and ":" not in self.host:
            return host
        return f"{user}{host}:{self.folder or ''}"

    def _url_path(self) -> str:
        return "" if self.folder is None else "/" + quote(self.folder, safe="/~")

    @property
    def session_name(self) -> str:
        """The name that a session with this target takes when none is given."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.host).strip("-.")[:32]
        return name or "target"


def parse_target(text: str) -> Target:
    """Read one of the spellings: host, [user@]host:[path], ssh://[user@]host[:port]/path, demo:[path].

    Raises: TargetSyntaxError, naming the spelling that is meant.
    """
    if not text or text != text.strip() or any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise _syntax(text, "a target is one word")
    if text.startswith("demo:"):
        return Target("demo", folder=_tidy(text.removeprefix("demo:")), is_demo=True)
    if "://" in text:
        return _parse_url(text)
    login, bracket_host, rest = _split_login(text)
    host, colon, folder = (bracket_host, rest[:1], rest[1:]) if bracket_host else rest.partition(":")
    if bracket_host and rest and not colon == ":":
        raise _syntax(text, "after [ADDRESS] comes a colon")
    if not colon and host.count("/"):
        raise _syntax(text, "that is a local path; a remote one is written HOST:FOLDER")
    if not bracket_host and folder.count(":") >= 1 and re.fullmatch(r"[0-9A-Fa-f:]+(%\S+)?", f"{host}:{folder}"):
        raise _syntax(text, f"an IPv6 address goes in brackets: [{host}:{folder}]:")
    return Target(_checked_host(text, host), _checked_user(text, login), None, _tidy(folder))


def _split_login(text: str) -> tuple[str | None, str | None, str]:
    """USER@, [ADDRESS] and what follows. The user ends at the last @ before the first colon outside brackets."""
    head = re.match(r"(?:(?P<user>[^:\[/]*)@)?(?:\[(?P<address>[^\]]*)\])?", text)
    assert head is not None  # every part of it is optional
    return head["user"], head["address"], text[head.end() :]


def _parse_url(text: str) -> Target:
    scheme, _, rest = text.partition("://")
    if scheme != "ssh":
        raise _syntax(text, f"{scheme}:// is not known, ssh:// is")
    authority, slash, path = rest.partition("/")
    login, at, place = authority.rpartition("@")
    match = re.fullmatch(r"(?:\[(?P<address>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d*))?", place)
    if not match:
        raise _syntax(text, "after ssh:// comes [USER@]HOST[:PORT]")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise _syntax(text, f"port {port} is outside 1 to 65535")
    if "?" in path or "#" in path:
        raise _syntax(text, "a ? or # in the folder is written %3F or %23")
    host = _checked_host(text, match["address"] or match["host"])
    user = _checked_user(text, unquote(login)) if at else None
    return Target(host, user, port, _tidy(unquote(path)))


def _tidy(folder: str) -> str | None:
    """FOLDER in the one spelling that it has: without empty and `.` components. `..` stays: it may leave a link."""
    parts = [part for part in folder.split("/") if part not in ("", ".")]
    return ("/" if folder.startswith("/") else "") + "/".join(parts) or None


def _checked_host(text: str, host: str) -> str:
    if not _HOST.fullmatch(host):
        raise _syntax(text, f"{host!r} is no host name" if host else "the host is missing")
    return host.strip("[]")


def _checked_user(text: str, user: str | None) -> str | None:
    if user is not None and not _USER.fullmatch(user):
        raise _syntax(text, f"{user!r} is no user name" if user else "the user before @ is missing")
    return user


def _syntax(text: str, reason: str) -> TargetSyntaxError:
    return TargetSyntaxError(f"target {text!r}: {reason}", fix=f"write {_SPELLINGS}")
