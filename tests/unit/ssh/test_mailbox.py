from __future__ import annotations

from typing import Any

import paramiko
from paramiko.common import MSG_CHANNEL_REQUEST

from reach.ssh.mailbox import CHANNEL_HANDLERS


class AnsweringChannel:
    """Keeps the names of the requests that it is to answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _handle_request(self, message: paramiko.Message) -> None:
        self.asked.append(message.get_text())


def test_a_request_that_wants_an_answer_is_answered_by_its_name() -> None:
    """OpenSSH's servers ask so whether the client is still there."""
    sent = paramiko.Message()
    sent.add_int(3)
    sent.add_string("keepalive@openssh.com")
    sent.add_boolean(True)
    received, channel = paramiko.Message(sent.asbytes()), AnsweringChannel()
    received.get_int()
    handle: Any = CHANNEL_HANDLERS[MSG_CHANNEL_REQUEST]
    handle(channel, received)
    assert channel.asked == ["keepalive@openssh.com"]
