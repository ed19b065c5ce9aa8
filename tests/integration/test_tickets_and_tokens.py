"""Logins by a Kerberos ticket and by a key in a token: paramiko has neither, so that ssh is chosen by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reach.errors import AuthenticationError
from reach.ssh.transport_choice import choose_transport
from support.kerberos import Realm
from support.login import connected, logging_in_by, output_of, settings_for, write_config
from support.operators import ScriptedOperator
from support.sshd import Sshd
from support.token import PIN, Token, provider

pytestmark = pytest.mark.sshd


@pytest.mark.kerberos
def test_a_kerberos_ticket_logs_in(
    make_sshd: Callable[..., Sshd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Realm(tmp_path) as realm:
        by = ["/usr/bin/env", *(f"{name}={value}" for name, value in realm.environment.items())]
        # only the ticket counts; the name that the client used is the one in the key table, not this machine's own
        only = {"GSSAPIAuthentication": "yes", "GSSAPIStrictAcceptorCheck": "no", "PubkeyAuthentication": "no"}
        server = make_sshd(only, by=by)
        asks = {"GSSAPIAuthentication": "yes", "GSSAPIDelegateCredentials": "yes"}
        config = write_config(tmp_path / "config", server, asks)
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        assert choose_transport("auto", settings_for(config)).name == "paramiko"
        realm.add_host("127.0.0.1")
        realm.log_in(server.user)
        choice = choose_transport("auto", settings_for(config))
        assert choice.name == "openssh"
        assert "a Kerberos ticket is there" in choice.why
        with logging_in_by(choice.name), connected(config) as link:
            assert output_of(link, "hostname").strip() == server.hostname
            assert output_of(link, "echo ${KRB5CCNAME-none}") == "none\n", "the ticket went along"
        subprocess.run(["kdestroy"], check=True)
        assert choose_transport("auto", settings_for(config)).name == "paramiko"


@pytest.mark.pkcs11
def test_a_key_in_a_token_logs_in_with_its_pin(
    make_sshd: Callable[..., Sshd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, server = Token(tmp_path), make_sshd()
    for name, value in token.environment.items():
        monkeypatch.setenv(name, value)
    server.authorized_keys.write_text(token.public_line)
    config = write_config(tmp_path / "config", server, {"PKCS11Provider": provider() or "", "IdentityFile": "none"})
    choice = choose_transport("auto", settings_for(config))
    assert choice.name == "openssh"
    with logging_in_by(choice.name):
        operator = ScriptedOperator({"PIN": PIN})
        with connected(config, operator) as link:
            assert output_of(link, "hostname").strip() == server.hostname
        assert operator.echoed == [False]
        with pytest.raises(AuthenticationError), connected(config):
            pass
