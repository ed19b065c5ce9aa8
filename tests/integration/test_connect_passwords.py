"""Logging in with what a person types: passwords, and the questions a server asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reach.errors import AuthenticationError
from reach.ssh.authentication import Secrets
from support.accounts import Account
from support.login import authorize, connected, make_key, output_of, write_config
from support.operators import ScriptedOperator
from support.sshd import Sshd
from support.transports import TRANSPORTS

pytestmark = [pytest.mark.sshd, pytest.mark.root, pytest.mark.transports(*TRANSPORTS)]

PASSWORD = "correct horse ß"


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with Account(password=PASSWORD) as account:
        yield account


@pytest.fixture(scope="module")
def server(account: Account) -> Iterator[Sshd]:
    with Sshd({"PasswordAuthentication": "yes"}, user=account.name) as server:
        yield server


@pytest.fixture(scope="module")
def asking_server(account: Account) -> Iterator[Sshd]:
    """One whose PAM asks for the password by keyboard-interactive."""
    with Sshd({"UsePAM": "yes", "KbdInteractiveAuthentication": "yes"}, user=account.name) as server:
        yield server


def name_of(config: Path, operator: ScriptedOperator | None = None, secrets: Secrets | None = None) -> str:
    with connected(config, operator, secrets) as transport:
        return output_of(transport, "id -un").strip()


def test_password_logs_in_and_is_never_echoed(server: Sshd, account: Account, tmp_path: Path) -> None:
    operator = ScriptedOperator({"password": PASSWORD})
    assert name_of(write_config(tmp_path / "config", server), operator) == account.name
    assert operator.asked == [f"{account.name}@box's password: "]
    assert operator.echoed == [False]


def test_password_is_asked_once_for_many_connections(server: Sshd, account: Account, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", server)
    operator, secrets = ScriptedOperator({"password": PASSWORD}), Secrets()
    assert name_of(config, operator, secrets) == account.name
    assert name_of(config, None, secrets) == account.name
    assert len(operator.asked) == 1
    assert PASSWORD not in repr(secrets)


def test_wrong_password_is_asked_for_again_and_not_kept(server: Sshd, account: Account, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", server)
    operator, secrets = ScriptedOperator({"password": ["wrong", PASSWORD]}), Secrets()
    assert name_of(config, operator, secrets) == account.name
    assert len(operator.asked) == 2
    assert name_of(config, None, secrets) == account.name


def test_password_that_is_no_longer_right_is_asked_for_again(server: Sshd, account: Account, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", server)
    secrets = Secrets()
    secrets.keep_answer(f"{account.name}@[127.0.0.1]:{server.port}", f"{account.name}@box's password: ", "old")
    operator = ScriptedOperator({"password": PASSWORD})
    assert name_of(config, operator, secrets) == account.name
    assert len(operator.asked) == 1


def test_number_of_password_prompts_is_kept(server: Sshd, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", server, {"NumberOfPasswordPrompts": 2})
    operator = ScriptedOperator({"password": "wrong"})
    with pytest.raises(AuthenticationError, match=r"password \(refused 2 times\)"):
        name_of(config, operator)
    assert len(operator.asked) == 2


def test_password_nobody_can_type_is_named_with_what_to_type(server: Sshd, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match="nobody was there to answer .*password") as error:
        name_of(write_config(tmp_path / "config", server))
    assert error.value.fix == "type in a terminal: reach up box"


def test_passwords_that_are_off_are_not_asked_for(server: Sshd, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", server, {"PasswordAuthentication": "no"})
    operator = ScriptedOperator({"password": PASSWORD})
    with pytest.raises(AuthenticationError):
        name_of(config, operator)
    assert operator.asked == []


def test_preferred_methods_come_first(server: Sshd, account: Account, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server, key)
    options = {"IdentityFile": key, "PreferredAuthentications": "password,publickey"}
    operator = ScriptedOperator({"password": PASSWORD})
    assert name_of(write_config(tmp_path / "config", server, options), operator) == account.name
    assert len(operator.asked) == 1


def test_servers_questions_are_asked(asking_server: Sshd, account: Account, tmp_path: Path) -> None:
    operator = ScriptedOperator({"Password:": PASSWORD})
    assert name_of(write_config(tmp_path / "config", asking_server), operator) == account.name
    assert operator.asked == [f"({account.name}@box) Password: "]
    assert operator.echoed == [False]


def test_answers_are_kept_for_further_connections(asking_server: Sshd, account: Account, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", asking_server)
    operator, secrets = ScriptedOperator({"Password:": ["wrong", PASSWORD]}), Secrets()
    assert name_of(config, operator, secrets) == account.name
    assert name_of(config, None, secrets) == account.name
    assert len(operator.asked) == 2


def test_questions_nobody_can_answer_are_named(asking_server: Sshd, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match="nobody was there to answer 'Password'"):
        name_of(write_config(tmp_path / "config", asking_server))


def test_key_then_password_satisfies_a_server_that_wants_both(account: Account, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    options = {"PasswordAuthentication": "yes", "AuthenticationMethods": "publickey,password"}
    with Sshd(options, user=account.name) as server:
        authorize(server, key)
        config = write_config(tmp_path / "config", server, {"IdentityFile": key})
        operator = ScriptedOperator({"password": ["wrong", PASSWORD]})
        assert name_of(config, operator) == account.name
        with pytest.raises(AuthenticationError, match=r"tried publickey \(key\); the server takes password"):
            name_of(config)
