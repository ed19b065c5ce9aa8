"""Logging in with keys, certificates and agents."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reach.errors import AuthenticationError
from reach.ssh.authentication import Secrets
from support.login import (
    authorize,
    connected,
    make_key,
    output_of,
    public_line,
    running_agent,
    sign_key,
    write_config,
)
from support.operators import ScriptedOperator
from support.sshd import Sshd
from support.transports import TRANSPORTS

pytestmark = [pytest.mark.sshd, pytest.mark.transports(*TRANSPORTS)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("authority")
    make_key(folder / "authority")
    with Sshd({"MaxAuthTries": 4, "TrustedUserCAKeys": folder / "authority.pub"}) as server:
        shutil.copy(folder / "authority", server.folder / "authority")
        yield server


@pytest.fixture
def log_so_far(server: Sshd) -> int:
    return len(server.log_text())


def logs_in(config: Path, **keywords: object) -> bool:
    with connected(config, **keywords) as transport:  # type: ignore[arg-type]
        return output_of(transport, "echo in") == "in\n"


@pytest.mark.parametrize("form", [None, "PEM", "PKCS8"])
@pytest.mark.parametrize("passphrase", ["", "open sesame"], ids=["open", "encrypted"])
@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_key_file_of_every_kind_logs_in(
    server: Sshd, tmp_path: Path, kind: str, passphrase: str, form: str | None
) -> None:
    key = make_key(tmp_path / "key", kind=kind, passphrase=passphrase, form=form)
    authorize(server, key)
    operator = ScriptedOperator({str(key): passphrase})
    assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}), operator=operator)
    assert len(operator.asked) == (1 if passphrase else 0)
    assert not any(operator.echoed)


@pytest.mark.parametrize("bits", ["384", "521"])
def test_longer_ecdsa_keys_log_in(server: Sshd, tmp_path: Path, bits: str) -> None:
    key = tmp_path / "key"
    os.spawnlp(os.P_WAIT, "ssh-keygen", "ssh-keygen", "-qt", "ecdsa", "-b", bits, "-N", "", "-f", str(key))
    authorize(server, key)
    assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}))


def test_wrong_passphrase_is_asked_for_again(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="right")
    authorize(server, key)
    operator = ScriptedOperator({str(key): ["wrong", "still wrong", "right"]})
    assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}), operator=operator)
    assert len(operator.asked) == 3


def test_passphrase_is_asked_three_times_at_most(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="right")
    authorize(server, key)
    operator = ScriptedOperator({str(key): "wrong"})
    with pytest.raises(AuthenticationError, match="key not used: its passphrase was not right"):
        logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}), operator=operator)
    assert len(operator.asked) == 3


def test_passphrase_is_asked_once_for_many_connections(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="right")
    authorize(server, key)
    config = write_config(tmp_path / "config", server, {"IdentityFile": key})
    operator, secrets = ScriptedOperator({str(key): "right"}), Secrets()
    assert logs_in(config, operator=operator, secrets=secrets)
    assert logs_in(config, secrets=secrets)
    assert len(operator.asked) == 1


def test_passphrase_nobody_can_type_is_named_with_what_to_type(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="right")
    authorize(server, key)
    with pytest.raises(AuthenticationError, match=f"nobody was there.*passphrase of {key}") as error:
        logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}))
    assert error.value.fix == "type in a terminal: reach up box"


def test_passphrase_of_a_key_the_server_does_not_want_is_not_asked_for(server: Sshd, tmp_path: Path) -> None:
    unwanted = make_key(tmp_path / "unwanted", passphrase="x")
    wanted = make_key(tmp_path / "wanted")
    authorize(server, wanted)
    operator = ScriptedOperator()
    config = write_config(tmp_path / "config", server, {"IdentityFile": [unwanted, wanted]})
    assert logs_in(config, operator=operator)
    assert operator.asked == []


def test_batch_mode_asks_nothing(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="right")
    authorize(server, key)
    operator = ScriptedOperator({str(key): "right"})
    config = write_config(tmp_path / "config", server, {"IdentityFile": key, "BatchMode": "yes"})
    with pytest.raises(AuthenticationError):
        logs_in(config, operator=operator)
    assert operator.asked == []


def test_key_that_others_may_read_is_not_used(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server, key)
    key.chmod(0o644)
    with pytest.raises(AuthenticationError, match=f"others may read it; type: chmod 600 {key}"):
        logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}))


def test_refusal_names_methods_keys_and_what_the_server_takes(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server)
    with pytest.raises(AuthenticationError) as error:
        logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}))
    message = str(error.value)
    assert f"permission denied for {server.user} on box (127.0.0.1) port {server.port}" in message
    assert "tried publickey (key refused)" in message
    assert "the server takes publickey" in message
    assert error.value.fix == f"see what ssh makes of it: ssh -F {tmp_path}/config box -v"


def test_too_many_keys_are_told_from_a_refusal(server: Sshd, tmp_path: Path) -> None:
    keys = [make_key(tmp_path / f"key{n}") for n in range(6)]
    authorize(server, keys[-1])
    with pytest.raises(AuthenticationError, match="broke off.*Too many authentication failures") as error:
        logs_in(write_config(tmp_path / "config", server, {"IdentityFile": keys}))
    assert "IdentitiesOnly" in str(error.value.fix)


@pytest.mark.transports("paramiko")
def test_same_key_is_offered_once(server: Sshd, tmp_path: Path, log_so_far: int) -> None:
    key = make_key(tmp_path / "key")
    copies = [Path(shutil.copy(key, tmp_path / f"copy{n}")) for n in range(6)]
    wanted = make_key(tmp_path / "wanted")
    authorize(server, wanted)
    with running_agent(tmp_path, key) as agent:
        config = write_config(tmp_path / "config", server, {"IdentityFile": [key, *copies, wanted]})
        assert logs_in(config, agent=agent)
    assert server.log_text()[log_so_far:].count("Failed publickey") == 1


# agents


def test_agent_key_logs_in_without_its_file(server: Sshd, tmp_path: Path) -> None:
    for kind in ("ed25519", "rsa", "ecdsa"):
        key = make_key(tmp_path / kind, kind=kind)
        authorize(server, key)
        with running_agent(tmp_path, key) as agent:
            key.unlink()
            config = write_config(tmp_path / "config", server, {"IdentityFile": tmp_path / "none"})
            assert logs_in(config, agent=agent)
        (tmp_path / "agent.sock").unlink(missing_ok=True)


def test_agent_of_the_environment_is_not_looked_for(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key(tmp_path / "key")
    authorize(server, key)
    config = write_config(tmp_path / "config", server, {"IdentityFile": tmp_path / "none"})
    with running_agent(tmp_path, key) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        with pytest.raises(AuthenticationError, match="no SSH agent was asked: SSH_AUTH_SOCK is not set"):
            logs_in(config)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "elsewhere"))
        assert logs_in(config, agent=agent)


def test_identity_agent_replaces_the_agent(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server, key)
    with running_agent(tmp_path, key) as agent:
        options = {"IdentityFile": tmp_path / "none", "IdentityAgent": agent}
        assert logs_in(write_config(tmp_path / "config", server, options), agent=tmp_path / "gone")
        options["IdentityAgent"] = "none"
        with pytest.raises(AuthenticationError, match="IdentityAgent is none"):
            logs_in(write_config(tmp_path / "config", server, options), agent=agent)


def test_agent_that_is_gone_is_named(server: Sshd, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config", server, {"IdentityFile": tmp_path / "none"})
    with pytest.raises(AuthenticationError, match=f"no SSH agent answers on {tmp_path}/gone"):
        logs_in(config, agent=tmp_path / "gone")


def test_agent_that_is_gone_leaves_the_files(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server, key)
    assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}), agent=tmp_path / "gone")


def test_identities_only_leaves_other_agent_keys_out(server: Sshd, tmp_path: Path) -> None:
    mine, other = make_key(tmp_path / "mine", passphrase="x"), make_key(tmp_path / "other")
    authorize(server, other)
    with running_agent(tmp_path, other) as agent:
        options = {"IdentityFile": mine, "IdentitiesOnly": "yes"}
        with pytest.raises(AuthenticationError, match=r"tried publickey \(mine refused\)"):
            logs_in(write_config(tmp_path / "config", server, options), agent=agent)


def test_identity_file_may_be_the_public_half_of_an_agent_key(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    others = [make_key(tmp_path / f"other{n}") for n in range(5)]
    authorize(server, key)
    with running_agent(tmp_path, *others, key) as agent:
        key.unlink()
        options = {"IdentityFile": f"{key}.pub", "IdentitiesOnly": "yes"}
        assert logs_in(write_config(tmp_path / "config", server, options), agent=agent)


def test_listed_agent_key_comes_before_the_others(server: Sshd, tmp_path: Path, log_so_far: int) -> None:
    key = make_key(tmp_path / "key")
    others = [make_key(tmp_path / f"other{n}") for n in range(5)]
    authorize(server, key)
    with running_agent(tmp_path, *others, key) as agent:
        assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}), agent=agent)
    assert "Failed publickey" not in server.log_text()[log_so_far:]


def test_agent_that_refuses_to_sign_leaves_the_next_key(server: Sshd, tmp_path: Path) -> None:
    held, file = make_key(tmp_path / "held"), make_key(tmp_path / "file")
    authorize(server, held, file)
    with running_agent(tmp_path) as agent:
        # -c wants a confirmation that nobody is there to give
        environment = {"SSH_AUTH_SOCK": str(agent), "PATH": os.environ["PATH"], "SSH_ASKPASS": "/bin/false"}
        os.spawnvpe(os.P_WAIT, "ssh-add", ["ssh-add", "-qc", str(held)], environment)
        assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": file}), agent=agent)


# certificates


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_certificate_beside_its_key_logs_in(server: Sshd, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "key", kind=kind)
    authorize(server)
    sign_key(server.folder / "authority", key, "-n", server.user)
    assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}))


def test_certificate_file_logs_in_with_a_key_of_the_agent(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server)
    certificate = sign_key(server.folder / "authority", key, "-n", server.user).rename(tmp_path / "cert.pub")
    with running_agent(tmp_path, key) as agent:
        key.unlink()
        options = {"IdentityFile": tmp_path / "none", "CertificateFile": certificate}
        assert logs_in(write_config(tmp_path / "config", server, options), agent=agent)


def test_certificate_file_logs_in_with_a_key_file(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server)
    certificate = sign_key(server.folder / "authority", key, "-n", server.user).rename(tmp_path / "cert.pub")
    options = {"IdentityFile": key, "CertificateFile": certificate}
    assert logs_in(write_config(tmp_path / "config", server, options))


def test_certificate_in_the_agent_logs_in(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", kind="rsa")
    authorize(server)
    sign_key(server.folder / "authority", key, "-n", server.user)
    with running_agent(tmp_path, key) as agent:
        config = write_config(tmp_path / "config", server, {"IdentityFile": tmp_path / "none"})
        assert logs_in(config, agent=agent)


def test_certificate_for_somebody_else_is_refused(server: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    authorize(server)
    sign_key(server.folder / "authority", key, "-n", "somebody-else")
    with pytest.raises(AuthenticationError, match="key-cert.pub refused"):
        logs_in(write_config(tmp_path / "config", server, {"IdentityFile": key}))


# algorithms


def test_rsa_key_signs_with_what_the_configuration_allows(server: Sshd, tmp_path: Path, log_so_far: int) -> None:
    key = make_key(tmp_path / "key", kind="rsa")
    authorize(server, key)
    for algorithm in ("rsa-sha2-256", "rsa-sha2-512"):
        options = {"IdentityFile": key, "PubkeyAcceptedAlgorithms": algorithm}
        assert logs_in(write_config(tmp_path / "config", server, options))


def test_key_whose_type_is_excluded_is_not_offered(server: Sshd, tmp_path: Path, log_so_far: int) -> None:
    key = make_key(tmp_path / "key", kind="rsa")
    authorize(server, key)
    options = {"IdentityFile": key, "PubkeyAcceptedAlgorithms": "ssh-ed25519"}
    with pytest.raises(AuthenticationError, match="its type is excluded"):
        logs_in(write_config(tmp_path / "config", server, options))


def test_several_keys_in_a_row_satisfy_a_server_that_wants_two(tmp_path: Path) -> None:
    keys = [make_key(tmp_path / "one"), make_key(tmp_path / "two")]
    with Sshd({"AuthenticationMethods": "publickey,publickey"}) as server:
        server.authorized_keys.write_text("".join(map(public_line, keys)))
        assert logs_in(write_config(tmp_path / "config", server, {"IdentityFile": keys}))
