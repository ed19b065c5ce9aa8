"""The authentication protocol (RFC 4252, RFC 4256) over paramiko's transport: one request, one reply.

paramiko's own client signs without asking whether the key would do, runs keyboard-interactive handlers in its
network thread under a 30 second limit, and drops the list of methods a refusal carries. Here the caller's
thread does the waiting, so a person may take their time. What to try is decided in `authentication`.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import paramiko
from paramiko.auth_handler import AuthHandler

from reach.ssh.remote_text import printable
from reach.ssh.wire_format import Reader, WireFormatError, string, uint32

REPLY_TIMEOUT_S = 120.0
"""A server that looks accounts up elsewhere may be slow; one that is silent for so long is gone."""
LAST_WORDS_TIMEOUT_S = 2.0
MAX_PROMPTS = 32
MAX_BANNERS = 16
MAX_WAITING = 64
"""Messages that may come in before this side has looked at them."""

_SERVICE_REQUEST, _SERVICE_ACCEPT = 5, 6
_REQUEST, _FAILURE, _SUCCESS, _BANNER = 50, 51, 52, 53
_METHOD_SPECIFIC = 60
_INFO_RESPONSE = 61


class LoginEndedError(Exception):
    """The connection ended, or the server stopped making sense, before the login was decided."""


@dataclass(frozen=True)
class Accepted:
    """We are in."""


@dataclass(frozen=True)
class Refused:
    """Not (yet) in."""

    methods: tuple[str, ...]
    """What the server would take next."""
    is_partial: bool
    """The attempt was right, and more is wanted."""


@dataclass(frozen=True)
class KeyWelcome:
    """A signature by the key asked about would be accepted."""


@dataclass(frozen=True)
class Questions:
    """The server's questions (keyboard-interactive), as it sent them."""

    title: bytes
    instruction: bytes
    prompts: tuple[tuple[bytes, bool], ...]
    """Each with whether the answer may be shown while it is typed."""


@dataclass(frozen=True)
class NewPasswordWanted:
    """The password is right and has expired."""


Reply = Accepted | Refused | KeyWelcome | Questions | NewPasswordWanted


def is_right(reply: Reply) -> bool:
    """Whether the attempt succeeded, be it that more is wanted."""
    return isinstance(reply, Accepted) or (isinstance(reply, Refused) and reply.is_partial)


class LoginExchange(AuthHandler):
    """Sends authentication requests for USER and waits for the replies. BANNER gets what the server says."""

    def __init__(self, transport: paramiko.Transport, user: str, banner: Callable[[bytes], None]) -> None:
        super().__init__(transport)
        self.username = user
        self._connection = transport
        self._banner = banner
        self._inbox: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._method = ""
        self._banners = 0
        transport.auth_handler = self

    @property
    def _handler_table(self) -> dict[int, Callable[[paramiko.Message], None]]:
        if self.authenticated:
            return {}
        types = (_SERVICE_ACCEPT, _FAILURE, _SUCCESS, _BANNER, _METHOD_SPECIFIC)
        return {type_: partial(self._receive, type_) for type_ in types}

    def _receive(self, type_: int, message: paramiko.Message) -> None:
        """Runs in paramiko's thread."""
        if self._inbox.qsize() >= MAX_WAITING:
            raise paramiko.SSHException("the server sends without waiting for an answer")
        if type_ == _SUCCESS and self._method:
            self.authenticated = True
            self._connection._auth_trigger()  # type: ignore[attr-defined]
        self._inbox.put((type_, message.get_remainder()))

    def abort(self) -> None:
        """Called by paramiko when the connection ends."""
        self._inbox.put(None)

    def start(self) -> Reply:
        """Ask for the service, then for a login without credentials: the reply lists the methods."""
        self._send(bytes([_SERVICE_REQUEST]) + string("ssh-userauth"))
        while self._next()[0] != _SERVICE_ACCEPT:
            pass
        return self.request("none", b"")

    def request(self, method: str, fields: bytes) -> Reply:
        """Attempt METHOD with its own FIELDS. Raises: LoginEndedError."""
        self._method = method
        self._send(self._header(method) + fields)
        return self._reply()

    def signed_request(self, algorithm: str, blob: bytes, sign: Callable[[bytes, str], bytes]) -> Reply:
        """Attempt publickey with a signature over this connection's id. Raises: LoginEndedError."""
        fields = b"\x01" + string(algorithm) + string(blob)
        signed = string(self._connection.session_id or b"") + self._header("publickey") + fields
        signature = sign(signed, algorithm)
        return self.request("publickey", fields + string(signature))

    def answer(self, answers: list[str]) -> Reply:
        """Answer Questions. Raises: LoginEndedError."""
        self._send(bytes([_INFO_RESPONSE]) + uint32(len(answers)) + b"".join(string(a) for a in answers))
        return self._reply()

    @property
    def signature_algorithms(self) -> tuple[str, ...]:
        """What the server says it can verify (RFC 8308, server-sig-algs); empty when it does not say."""
        extensions: dict[str, bytes] = self._connection.server_extensions  # type: ignore[attr-defined]
        names = extensions.get("server-sig-algs", b"").decode("ascii", "replace")
        return tuple(name for name in names.split(",") if name)

    @property
    def disconnect_reason(self) -> str:
        """The words the server ended the connection with, printable; empty when it gave none."""
        return printable(getattr(self._connection, "disconnect_reason", ""))

    def _header(self, method: str) -> bytes:
        return bytes([_REQUEST]) + string(self.username or "") + string("ssh-connection") + string(method)

    def _send(self, payload: bytes) -> None:
        message = paramiko.Message()
        message.add_bytes(payload)
        try:
            with self._connection.lock:
                self._connection._send_message(message)  # type: ignore[attr-defined]
        except (OSError, EOFError) as error:
            self._await_end()
            raise LoginEndedError("the server closed the connection") from error

    def _await_end(self) -> None:
        """Let paramiko's thread read the server's last words after a write met a closed connection."""
        with contextlib.suppress(queue.Empty):
            while self._inbox.get(timeout=LAST_WORDS_TIMEOUT_S) is not None:
                pass

    def _next(self) -> tuple[int, bytes]:
        """The next message that is no banner."""
        while True:
            try:
                received = self._inbox.get(timeout=REPLY_TIMEOUT_S)
            except queue.Empty:
                raise LoginEndedError(f"the server did not answer within {REPLY_TIMEOUT_S:.0f} seconds") from None
            if received is None:
                raise LoginEndedError("the server closed the connection")
            if received[0] != _BANNER:
                return received
            self._banners += 1
            if self._banners > MAX_BANNERS:
                raise LoginEndedError("the server sends banners without end")
            self._banner(_banner_text(received[1]))

    def _reply(self) -> Reply:
        type_, payload = self._next()
        try:
            return self._parsed(type_, Reader(payload))
        except WireFormatError as error:
            raise LoginEndedError(f"the server's answer can't be read: {error}") from error

    def _parsed(self, type_: int, reader: Reader) -> Reply:
        if type_ == _SUCCESS:
            return Accepted()
        if type_ == _FAILURE:
            return Refused(reader.names(), reader.boolean())
        if type_ == _METHOD_SPECIFIC and self._method == "publickey":
            return KeyWelcome()
        if type_ == _METHOD_SPECIFIC and self._method == "keyboard-interactive":
            return _questions(reader)
        if type_ == _METHOD_SPECIFIC and self._method == "password":
            return NewPasswordWanted()
        raise WireFormatError(f"message {type_} has no place here")


def _questions(reader: Reader) -> Questions:
    title, instruction, _language = reader.string(), reader.string(), reader.string()
    count = reader.uint32()
    if count > MAX_PROMPTS:
        raise WireFormatError(f"{count} questions at once")
    return Questions(title, instruction, tuple((reader.string(), reader.boolean()) for _ in range(count)))


def _banner_text(payload: bytes) -> bytes:
    try:
        return Reader(payload).string()
    except WireFormatError:
        return b""
