"""Which host keys are accepted, and what is said of the others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reach.errors import ConfigError, HostKeyMismatchError, HostKeyUnknownError
from reach.ssh.operator import Operator
from support.login import connected, make_key, output_of, public_line, write_config
from support.operators import ScriptedOperator
from support.sshd import Sshd
from support.transports import TRANSPORTS

pytestmark = [pytest.mark.sshd, pytest.mark.transports(*TRANSPORTS)]


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


@pytest.fixture
def enter(sshd: Sshd, tmp_path: Path, known_hosts: Path) -> Callable[..., str]:
    """Connect with the test's own known_hosts file and ssh_config lines; where one arrived."""

    def enter(operator: Operator | None = None, **options: object) -> str:
        given = {"UserKnownHostsFile": known_hosts, "StrictHostKeyChecking": "ask", **options}
        config = write_config(tmp_path / "config", sshd, {"IdentityFile": sshd.client_key, **given})
        with connected(config, operator) as transport:
            return output_of(transport, "hostname").strip()

    return enter


def fingerprint(sshd: Sshd, kind: str = "ed25519") -> str:
    argv = ["ssh-keygen", "-lf", f"{sshd.folder}/host_{kind}.pub"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()[1]


def key_of(line: str) -> str:
    return line.split(" ", 1)[1]


def test_unknown_key_is_refused_where_nobody_can_be_asked(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path
) -> None:
    with pytest.raises(HostKeyUnknownError) as error:
        enter()
    assert f"host key of box (127.0.0.1) port {sshd.port} is not known" in str(error.value)
    assert f"ED25519 key {fingerprint(sshd)}" in str(error.value)
    assert "reach up box" in str(error.value.fix)
    assert not known_hosts.exists()


def test_unknown_key_is_shown_and_added_on_yes(enter: Callable[..., str], sshd: Sshd, known_hosts: Path) -> None:
    operator = ScriptedOperator({"Is that the host's key": "yes"})
    assert enter(operator, HashKnownHosts="no") == sshd.hostname
    [question] = operator.asked
    assert f"box (127.0.0.1) port {sshd.port}" in question
    assert f"ED25519 key {fingerprint(sshd)}" in question
    assert known_hosts.read_text().strip() == sshd.host_key_line("ed25519")
    assert enter() == sshd.hostname


def test_added_key_is_one_that_ssh_takes(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, tmp_path: Path
) -> None:
    enter(ScriptedOperator({"key": "yes"}), HashKnownHosts="yes")
    assert "127.0.0.1" not in known_hosts.read_text()
    argv = ["ssh", "-F", str(tmp_path / "config"), "-o", "StrictHostKeyChecking=yes", "box", "hostname"]
    assert subprocess.run(argv, capture_output=True, text=True).stdout.strip() == sshd.hostname


def test_fingerprint_may_be_typed_instead_of_yes(enter: Callable[..., str], sshd: Sshd) -> None:
    assert enter(ScriptedOperator({"key": f" {fingerprint(sshd)} "})) == sshd.hostname


@pytest.mark.parametrize(
    "answers", [["no"], ["", "SHA256:something else", "no"], ["y"]], ids=["no", "other-fingerprint", "nobody-left"]
)
def test_any_other_answer_does_not_accept(enter: Callable[..., str], known_hosts: Path, answers: list[str]) -> None:
    operator = ScriptedOperator({"": answers})
    with pytest.raises(HostKeyUnknownError):
        enter(operator)
    assert not known_hosts.exists()


def test_nobody_is_asked_in_strict_or_batch_mode(enter: Callable[..., str]) -> None:
    operator = ScriptedOperator({"": "yes"})
    for options in ({"StrictHostKeyChecking": "yes"}, {"BatchMode": "yes"}):
        with pytest.raises(HostKeyUnknownError):
            enter(operator, **options)
    assert operator.asked == []


@pytest.mark.parametrize("policy", ["accept-new", "no", "off"])
def test_key_is_accepted_and_added_unasked_only_where_the_policy_says_so(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, policy: str
) -> None:
    operator = ScriptedOperator()
    assert enter(operator, StrictHostKeyChecking=policy, HashKnownHosts="no") == sshd.hostname
    assert operator.asked == []
    assert fingerprint(sshd) in operator.told[0]
    assert known_hosts.read_text().strip() == sshd.host_key_line("ed25519")


@pytest.mark.parametrize("policy", ["ask", "yes", "accept-new", "no"])
def test_changed_key_is_refused_whatever_the_policy(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, tmp_path: Path, policy: str
) -> None:
    other = make_key(tmp_path / "other")
    content = f"# one\n[127.0.0.1]:{sshd.port} {public_line(other)}"
    known_hosts.write_text(content)
    operator = ScriptedOperator({"": "yes"})
    with pytest.raises(HostKeyMismatchError) as error:
        enter(operator, StrictHostKeyChecking=policy)
    message = str(error.value)
    assert f"port {sshd.port} has changed" in message
    assert fingerprint(sshd) in message
    known = subprocess.run(["ssh-keygen", "-lf", f"{other}.pub"], capture_output=True, text=True).stdout.split()[1]
    assert known in message
    assert f"{known_hosts} line 2" in message
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {known_hosts}" in message
    assert operator.asked == []
    assert known_hosts.read_text() == content


def test_key_of_another_type_is_a_change_too(enter: Callable[..., str], sshd: Sshd, known_hosts: Path) -> None:
    known_hosts.write_text(sshd.host_key_line("rsa"))
    with pytest.raises(HostKeyMismatchError):
        enter(HostKeyAlgorithms="ssh-ed25519", StrictHostKeyChecking="accept-new")


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_server_is_asked_for_the_type_of_key_that_is_known(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, kind: str
) -> None:
    known_hosts.write_text(sshd.host_key_line(kind))
    assert enter() == sshd.hostname


def test_swapped_host_key_is_noticed_by_the_next_connection(
    make_sshd: Callable[..., Sshd],
) -> None:
    server = make_sshd()
    with connected(server.config, alias=server.alias) as transport:
        server.swap_host_key()
        assert output_of(transport, "hostname").strip() == server.hostname
    with pytest.raises(HostKeyMismatchError):
        connected(server.config, alias=server.alias).__enter__()


@pytest.mark.transports("paramiko")
@pytest.mark.parametrize("policy", ["ask", "no"])
def test_key_revoked_for_the_name_without_its_port_is_refused(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, policy: str
) -> None:
    """Where ssh is not so strict."""
    line = sshd.host_key_line()
    known_hosts.write_text(f"{line}\n@revoked 127.0.0.1 {key_of(line)}\n")
    with pytest.raises(HostKeyMismatchError, match=f"{known_hosts} line 2 marks as revoked"):
        enter(ScriptedOperator({"": "yes"}), StrictHostKeyChecking=policy)


@pytest.mark.parametrize("pattern", ["*", "[127.0.0.1]:*", "hashed"])
@pytest.mark.parametrize("policy", ["ask", "no"])
def test_revoked_key_is_refused(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, pattern: str, policy: str
) -> None:
    key = key_of(sshd.host_key_line())
    known_hosts.write_text(f"{sshd.host_key_line()}\n")
    if pattern == "hashed":
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known_hosts)], check=True, capture_output=True)
        revoked = f"@revoked {known_hosts.read_text()}"
    else:
        revoked = f"@revoked {pattern} {key}\n"
    known_hosts.write_text(f"{sshd.host_key_line()}\n{revoked}")
    with pytest.raises(HostKeyMismatchError, match=f"{known_hosts} line 2 marks as revoked") as error:
        enter(ScriptedOperator({"": "yes"}), StrictHostKeyChecking=policy)
    assert fingerprint(sshd) in str(error.value)


def test_key_revoked_for_another_host_is_still_this_ones(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path
) -> None:
    known_hosts.write_text(f"@revoked other {key_of(sshd.host_key_line())}\n{sshd.host_key_line()}\n")
    assert enter() == sshd.hostname


def test_revoked_host_keys_file_is_honoured(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, tmp_path: Path
) -> None:
    known_hosts.write_text(f"{sshd.host_key_line()}\n")
    revoked = tmp_path / "revoked"
    revoked.write_text(f"# old ones\n{public_line(make_key(tmp_path / 'old'))}")
    assert enter(RevokedHostKeys=revoked) == sshd.hostname
    with revoked.open("a") as file:
        file.write(key_of(sshd.host_key_line()) + "\n")
    with pytest.raises(HostKeyMismatchError, match="RevokedHostKeys"):
        enter(RevokedHostKeys=revoked)
    with pytest.raises(ConfigError, match="can't be read"):
        enter(RevokedHostKeys=tmp_path / "none")


@pytest.mark.transports("paramiko")
def test_revoked_host_keys_in_a_krl_are_said_not_to_be_read(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, tmp_path: Path
) -> None:
    known_hosts.write_text(f"{sshd.host_key_line()}\n")
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(tmp_path / "krl")], check=True)
    with pytest.raises(ConfigError, match="KRL"):
        enter(RevokedHostKeys=tmp_path / "krl")


@pytest.mark.parametrize(
    "bad", ["@revoked", "@cert-authority * ssh-rsa ???", "garbage", "@frob a b c", "h 1024 35 123", "\0\xff"]
)
def test_line_that_cannot_be_read_does_not_hide_the_key(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, bad: str
) -> None:
    known_hosts.write_text(f"{bad}\n{sshd.host_key_line()}\n", encoding="latin-1")
    assert enter() == sshd.hostname


def test_several_files_are_read(enter: Callable[..., str], sshd: Sshd, known_hosts: Path, tmp_path: Path) -> None:
    known_hosts.write_text("")
    second, third = tmp_path / "second", tmp_path / "third"
    second.write_text(sshd.host_key_line())
    assert enter(UserKnownHostsFile=f"{known_hosts} {second}") == sshd.hostname
    third.write_text(sshd.host_key_line())
    assert enter(GlobalKnownHostsFile=f"{tmp_path}/none {third}") == sshd.hostname


def test_hashed_file_of_ssh_keygen_is_read(enter: Callable[..., str], sshd: Sshd, known_hosts: Path) -> None:
    known_hosts.write_text(f"{sshd.host_key_line()}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known_hosts)], check=True, capture_output=True)
    assert "127" not in known_hosts.read_text().split()[0]
    assert enter() == sshd.hostname


def test_key_known_without_the_port_is_proof(enter: Callable[..., str], sshd: Sshd, known_hosts: Path) -> None:
    known_hosts.write_text(f"127.0.0.1 {key_of(sshd.host_key_line())}\n")
    assert enter() == sshd.hostname


def test_other_key_known_without_the_port_is_no_contradiction(
    enter: Callable[..., str], sshd: Sshd, known_hosts: Path, tmp_path: Path
) -> None:
    known_hosts.write_text(f"127.0.0.1 {public_line(make_key(tmp_path / 'other'))}")
    with pytest.raises(HostKeyUnknownError):
        enter()


def test_host_key_alias_is_the_name_looked_up(enter: Callable[..., str], sshd: Sshd, known_hosts: Path) -> None:
    known_hosts.write_text(f"the-box {key_of(sshd.host_key_line())}\n")
    assert enter(HostKeyAlias="the-box") == sshd.hostname
    with pytest.raises(HostKeyUnknownError):
        enter(HostKeyAlias="another")


def test_managed_home_is_not_where_known_hosts_are_looked_for(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed = tmp_path / "home"
    (managed / ".ssh").mkdir(parents=True)
    (managed / ".ssh/known_hosts").write_text(sshd.host_key_line())
    monkeypatch.setenv("HOME", str(managed))
    config = tmp_path / "config"
    config.write_text(f"Host box\n HostName 127.0.0.1\n Port {sshd.port}\n User {sshd.user}\n")
    with pytest.raises(HostKeyUnknownError):
        connected(config).__enter__()
