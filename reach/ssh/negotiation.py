"""paramiko's transport with this host's algorithms in their order, and two of its weak spots mended.

A server's reason for hanging up is kept, and a channel that ends while keys are exchanged anew does not stop the
connection: paramiko answers the end of a channel from the thread that has to finish the exchange, and waits there
for the exchange to finish until it gives up after 30 seconds (5.1.0, seen with RekeyLimit 1M).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import paramiko

from reach.ssh.algorithms import KEX_CLASSES, available, quickest_first
from reach.ssh.host_settings import HostSettings
from reach.ssh.packetizer import BoundedPacketizer
from reach.ssh.remote_text import printable


class NegotiatingTransport(paramiko.Transport):
    """Mixed into whatever transport class a caller wants."""

    disconnect_reason = ""
    _kex_info = KEX_CLASSES
    _host_key_order: tuple[str, ...] = ()

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **{"packetizer_class": BoundedPacketizer, **keywords})
        self._held_back: list[paramiko.Message] = []
        self._first_host_key: bytes | None = None

    @property
    def preferred_keys(self) -> Sequence[str]:
        """Exactly what was set: paramiko's own list adds a certificate type to every key type, at the end."""
        return self._host_key_order or super().preferred_keys

    def negotiate_as(self, settings: HostSettings, host_key_algorithms: tuple[str, ...]) -> None:
        """Offer what SETTINGS allow. Raises: ConfigError when paramiko has none of a kind."""
        host = settings.host
        self._preferred_ciphers = quickest_first(available("Ciphers", settings.ciphers, host), settings.ciphers)
        self._preferred_macs = available("MACs", settings.macs, host)
        self._preferred_kex = available("KexAlgorithms", settings.key_exchanges, host)
        self._host_key_order = available("HostKeyAlgorithms", host_key_algorithms, host)
        if settings.rekey_bytes:
            self.packetizer.REKEY_BYTES = settings.rekey_bytes

    def _verify_key(self, host_key: bytes, signature: bytes) -> None:
        """Check the signature, and that a key exchange later on is with the host that was checked at first."""
        super()._verify_key(host_key, signature)  # type: ignore[misc]
        if self._first_host_key not in (None, host_key):
            raise paramiko.SSHException("the server showed another host key in mid-connection")
        self._first_host_key = host_key

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()
        self.disconnect_reason = printable(message.get_string())

    def _send_user_message(self, message: paramiko.Message) -> None:
        """Send MESSAGE, or keep it when only this thread can end the exchange that it has to wait for."""
        if threading.current_thread() is self and not self.clear_to_send.is_set():
            self._held_back.append(message)
            return
        super()._send_user_message(message)  # type: ignore[misc]

    def _parse_newkeys(self, message: paramiko.Message) -> None:
        super()._parse_newkeys(message)  # type: ignore[misc]
        held_back, self._held_back = self._held_back, []
        for each in held_back:
            self._send_user_message(each)


@cache
def negotiating(transport_class: type[paramiko.Transport]) -> type[NegotiatingTransport]:
    """TRANSPORT_CLASS with NegotiatingTransport mixed in."""
    if issubclass(transport_class, NegotiatingTransport):
        return transport_class
    mixed = type(f"Negotiating{transport_class.__name__}", (NegotiatingTransport, transport_class), {})
    assert issubclass(mixed, NegotiatingTransport)
    return mixed
