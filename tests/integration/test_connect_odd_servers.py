"""Logins that no sshd of ours would lead through: many questions, hostile words, endless rounds."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from paramiko.common import (
    AUTH_FAILED,
    AUTH_PARTIALLY_SUCCESSFUL,
    AUTH_SUCCESSFUL,
    cMSG_USERAUTH_BANNER,
    cMSG_USERAUTH_INFO_REQUEST,
)
from paramiko.server import InteractiveQuery, ServerInterface

from reach.errors import AuthenticationError
from reach.ssh.authentication import Secrets
from support.login import connected
from support.operators import ScriptedOperator


class OddServer(ServerInterface):
    """A server whose login a test decides."""

    methods = "keyboard-interactive"
    rounds: list[InteractiveQuery]

    def __init__(self, rounds: list[InteractiveQuery] | None = None) -> None:
        self.rounds = list(rounds or [])
        self.answers: list[list[str]] = []

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_none(self, username: str) -> int:
        return AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        return AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> int | InteractiveQuery:
        return self.rounds.pop(0) if self.rounds else AUTH_SUCCESSFUL

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        self.answers.append(responses)
        return self.rounds.pop(0) if self.rounds else AUTH_SUCCESSFUL


@contextlib.contextmanager
def serving(interface: ServerInterface, folder: Path) -> Iterator[Path]:
    """INTERFACE behind a port; an ssh_config that leads there."""
    key = paramiko.RSAKey.generate(2048)
    transports: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    transport = paramiko.Transport(listener.accept()[0])
                    transports.append(transport)
                    transport.add_server_key(key)
                    with contextlib.suppress(paramiko.SSHException, EOFError):
                        transport.start_server(server=interface)

        thread = threading.Thread(target=serve)
        thread.start()
        config = folder / "config"
        port = listener.getsockname()[1]
        config.write_text(
            f"Host box\n HostName 127.0.0.1\n Port {port}\n User eve\n IdentityFile none\n"
            "StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n"
        )
        try:
            yield config
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for transport in transports:
                transport.close()
                transport.join()


def log_in(config: Path, operator: ScriptedOperator, secrets: Secrets | None = None) -> None:
    with connected(config, operator, secrets) as transport:
        assert transport.is_authenticated()


def test_several_questions_are_asked_in_order_each_with_its_echo(tmp_path: Path) -> None:
    server = OddServer(
        [
            InteractiveQuery("Step one", "Who are you?", ("Name: ", True), ("Secret: ", False)),
            InteractiveQuery("", "", ("Code: ", False)),
        ]
    )
    operator = ScriptedOperator({"Name": "eve", "Secret": "s3", "Code": "123"})
    with serving(server, tmp_path) as config:
        log_in(config, operator)
    assert server.answers == [["eve", "s3"], ["123"]]
    assert operator.asked == ["(eve@box) Name: ", "(eve@box) Secret: ", "(eve@box) Code: "]
    assert operator.echoed == [True, False, False]
    assert operator.told[-2:] == ["Step one", "Who are you?"]


def test_round_without_questions_is_answered_with_nothing(tmp_path: Path) -> None:
    server = OddServer([InteractiveQuery("Note", "read this"), InteractiveQuery("", "", ("Code: ", False))])
    with serving(server, tmp_path) as config:
        log_in(config, ScriptedOperator({"Code": "1"}))
    assert server.answers == [[], ["1"]]


def test_question_cannot_steer_the_terminal(tmp_path: Path) -> None:
    server = OddServer([InteractiveQuery("\x1b]0;x\x07", "in\x1b[2Jst", ("Pass\x1b[8mword\r\n: ", False))])
    operator = ScriptedOperator({"Pass": "x"})
    with serving(server, tmp_path) as config:
        log_in(config, operator)
    shown = "".join([*operator.asked, *operator.told])
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_answers_go_to_the_account_they_were_given_for_only(tmp_path: Path) -> None:
    secrets = Secrets()
    secrets.keep_answer("bob@[127.0.0.1]:1", "Password: ", "another account's")
    server = OddServer([InteractiveQuery("", "", ("Password: ", False))])
    operator = ScriptedOperator({"Password": "eve's"})
    with serving(server, tmp_path) as config:
        log_in(config, operator, secrets)
    assert server.answers == [["eve's"]]


def test_server_that_asks_without_end_is_given_up(tmp_path: Path) -> None:
    server = OddServer([InteractiveQuery("", "", ("More: ", True))] * 1000)
    operator = ScriptedOperator({"More": "x"})
    with serving(server, tmp_path) as config, pytest.raises(AuthenticationError):
        log_in(config, operator)
    assert len(operator.asked) < 100


def test_refusal_with_hostile_method_names_is_printable(tmp_path: Path) -> None:
    server = OddServer()
    server.methods = "\x1b[2Jmagic"
    with serving(server, tmp_path) as config, pytest.raises(AuthenticationError) as error:
        log_in(config, ScriptedOperator())
    assert str(error.value).isprintable()


def test_methods_that_are_unknown_here_are_named(tmp_path: Path) -> None:
    server = OddServer()
    server.methods = "gssapi-with-mic,hostbased"
    with (
        serving(server, tmp_path) as config,
        pytest.raises(AuthenticationError, match="nothing to try; the server takes gssapi-with-mic, hostbased"),
    ):
        log_in(config, ScriptedOperator())


class NewPasswordServer(OddServer):
    """One that finds the password right but too old."""

    methods = "password"

    def check_auth_password(self, username: str, password: str) -> int:
        transport = threading.current_thread()
        assert isinstance(transport, paramiko.Transport)
        message = paramiko.Message()
        message.add_byte(cMSG_USERAUTH_INFO_REQUEST)  # number 60, which means PASSWD_CHANGEREQ after password
        message.add_string("Your password has expired")
        message.add_string("")
        transport._send_message(message)  # type: ignore[attr-defined]
        return AUTH_FAILED


def test_expired_password_is_said_to_be_one(tmp_path: Path) -> None:
    with (
        serving(NewPasswordServer(), tmp_path) as config,
        pytest.raises(AuthenticationError, match="password of eve@box has expired") as error,
    ):
        log_in(config, ScriptedOperator({"password": "old"}))
    assert "ssh" in str(error.value.fix)


class PartialServer(OddServer):
    """One that is never satisfied."""

    methods = "password"

    def check_auth_password(self, username: str, password: str) -> int:
        return AUTH_PARTIALLY_SUCCESSFUL


def test_server_that_always_wants_more_is_given_up(tmp_path: Path) -> None:
    operator = ScriptedOperator({"password": "x"})
    with serving(PartialServer(), tmp_path) as config, pytest.raises(AuthenticationError):
        log_in(config, operator)


class TalkativeServer(OddServer):
    """One that greets again and again instead of deciding."""

    methods = "password"

    def check_auth_password(self, username: str, password: str) -> int:
        transport = threading.current_thread()
        assert isinstance(transport, paramiko.Transport)
        with contextlib.suppress(EOFError, OSError):
            for _ in range(10_000):
                message = paramiko.Message()
                message.add_byte(cMSG_USERAUTH_BANNER)
                message.add_string("hello")
                message.add_string("")
                transport._send_message(message)  # type: ignore[attr-defined]
        return AUTH_FAILED


def test_server_that_greets_without_end_is_given_up(tmp_path: Path) -> None:
    operator = ScriptedOperator({"password": "x"})
    with serving(TalkativeServer(), tmp_path) as config, pytest.raises(AuthenticationError):
        log_in(config, operator)
    assert operator.told.count("hello") < 100


def test_other_host_key_in_mid_connection_ends_it(tmp_path: Path) -> None:
    with serving(OddServer(), tmp_path) as config, connected(config, ScriptedOperator()) as transport:
        transport.renegotiate_keys()
        [server] = [t for t in threading.enumerate() if isinstance(t, paramiko.Transport) and t.server_mode]
        server.server_key_dict.clear()
        server.add_server_key(paramiko.RSAKey.generate(2048))
        with pytest.raises(paramiko.SSHException, match="another host key"):
            transport.renegotiate_keys()
