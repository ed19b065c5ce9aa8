"""From settings to a connection that is open, to the right host, and logged in."""

from __future__ import annotations

import logging
import socket
import threading
import time

import paramiko

from reach.errors import ConnectError, ReachError
from reach.ssh.authentication import authenticate
from reach.ssh.host_key import HostKeyRecord
from reach.ssh.negotiation import NegotiatingTransport, negotiating
from reach.ssh.operator import Operator
from reach.ssh.proxy import CommandStream, JumpStream, open_command, open_through
from reach.ssh.secrets import Secrets
from reach.ssh.settings import HostSettings
from reach.ssh.translation import as_reach_error, translating

DEFAULT_CONNECT_TIMEOUT_S = 30
"""Without ConnectTimeout, ssh waits for as long as TCP does: two minutes and more."""

# Without a handler, Python prints paramiko's errors on stderr, which is the operator's screen.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

Stream = socket.socket | JumpStream | CommandStream


def connect(
    settings: HostSettings,
    operator: Operator,
    secrets: Secrets,
    *,
    transport_class: type[paramiko.Transport] = paramiko.Transport,
) -> paramiko.Transport:
    """Connect to the host of SETTINGS, through its jump hosts, check its host key and log in.

    Raises: ConnectError, HostKeyUnknownError, HostKeyMismatchError, AuthenticationError; ConfigError when the
    settings leave no algorithm, or a file they name can't be read.
    """
    record = HostKeyRecord.load(settings)
    stream = _open_stream(settings, operator, secrets)
    try:
        transport = _start(stream, settings, record, transport_class)
    except BaseException:
        stream.close()
        raise
    try:
        with translating(f"logging in on {settings.label}", connecting=True):
            record.check(_host_key_blob(transport), operator)
            authenticate(transport, settings, operator, secrets)
    except BaseException as error:
        transport.close()
        if isinstance(error, ConnectError):
            error.may_pass = False  # a login that the server broke off is not tried again unasked
        raise
    return transport


def _open_stream(settings: HostSettings, operator: Operator, secrets: Secrets) -> Stream:
    if settings.jump is not None:
        return open_through(connect(settings.jump, operator, secrets), settings, _timeout_s(settings))
    if settings.proxy_command is not None:
        return open_command(settings)
    return _open_tcp(settings)


def _timeout_s(settings: HostSettings) -> int:
    return settings.connect_timeout_s or DEFAULT_CONNECT_TIMEOUT_S


def _open_tcp(settings: HostSettings) -> socket.socket:
    """Try each address of the host in turn, as often as ConnectionAttempts says."""
    what = f"connecting to {settings.label}"
    with translating(what, connecting=True):
        addresses = socket.getaddrinfo(
            settings.hostname, settings.port, settings.address_family, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )
    failure: OSError | None = None
    for attempt in range(max(1, settings.connection_attempts)):
        if attempt:
            time.sleep(1)  # as ssh does between attempts
        for family, kind, protocol, _, address in addresses:
            try:
                return _open_address(family, kind, protocol, address, settings)
            except OSError as error:
                failure = error
    if failure is None:
        raise ConnectError(f"{what}: the name has no address of the family that AddressFamily asks for")
    raise as_reach_error(failure, what, connecting=True) from failure


def _open_address(
    family: int, kind: int, protocol: int, address: tuple[object, ...], settings: HostSettings
) -> socket.socket:
    connection = socket.socket(family, kind, protocol)
    try:
        connection.settimeout(_timeout_s(settings))
        if settings.bind_address:
            connection.bind((settings.bind_address, 0))
        connection.connect(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        connection.close()
        raise
    return connection


def _start(
    stream: Stream, settings: HostSettings, record: HostKeyRecord, transport_class: type[paramiko.Transport]
) -> NegotiatingTransport:
    """Exchange versions and keys over STREAM."""
    timeout_s = _timeout_s(settings)
    transport = negotiating(transport_class)(stream)  # type: ignore[arg-type]
    transport.negotiate_as(settings, record.preferred_algorithms())
    transport.banner_timeout = transport.handshake_timeout = timeout_s
    done = threading.Event()
    what = f"connecting to {settings.label}"
    try:
        with translating(what, connecting=True):
            transport.start_client(event=done)
            if not done.wait(2 * timeout_s):
                raise TimeoutError
            if not transport.initial_kex_done or not transport.is_active():
                raise transport.get_exception() or EOFError()
    except ReachError as error:
        transport.close()
        if isinstance(stream, CommandStream):
            stream.close()
            raise ConnectError(f"{what} by its ProxyCommand: {stream.complaint()}") from error
        raise
    return transport


def _host_key_blob(transport: paramiko.Transport) -> bytes:
    key = transport.get_remote_server_key()
    certificate = getattr(key, "public_blob", None)
    return certificate.key_blob if certificate is not None else key.asbytes()
