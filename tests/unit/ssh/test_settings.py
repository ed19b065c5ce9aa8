from __future__ import annotations

import socket
from pathlib import Path

import pytest

from reach.errors import ConfigError
from reach.paths import operator_home
from reach.ssh import config
from reach.ssh.settings import HostKeyPolicy, HostSettings, parse_jump, resolve_settings
from reach.ssh.settings_reader import parse_seconds, split_paths
from reach.target import Target, parse_target

HOME = operator_home()


@pytest.fixture(params=["ssh -G", "paramiko"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to read ssh_config."""
    which = config.shutil.which("ssh")
    if request.param == "paramiko":
        monkeypatch.setattr(config.shutil, "which", lambda name: None)
    elif not which:
        pytest.skip("no ssh client: install Debian's openssh-client")
    return str(request.param)


@pytest.fixture
def ssh_only() -> None:
    if not config.shutil.which("ssh"):
        pytest.skip("no ssh client: install Debian's openssh-client")


def settings(tmp_path: Path, text: str, target: str = "box", agent: str | None = None) -> HostSettings:
    file = tmp_path / "config"
    file.write_text(text)
    return resolve_settings(parse_target(target), config_file=file, agent_socket=agent)


@pytest.mark.usefixtures("reader")
class TestWithEitherReader:
    """What holds by `ssh -G` and by paramiko's parser alike."""

    def test_alias_is_resolved(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n HostName 10.0.0.1\n Port 2222\n User bob\n")
        assert (found.hostname, found.port, found.user) == ("10.0.0.1", 2222, "bob")
        assert found.label == "box (10.0.0.1) port 2222"
        assert found.known_hosts_name == "[10.0.0.1]:2222"

    def test_what_the_target_names_wins(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n Port 2222\n User bob\n", "ssh://eve@box:99")
        assert (found.user, found.port) == ("eve", 99)

    def test_defaults_are_those_of_ssh(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "", agent="/run/agent")
        assert found.port == 22
        assert found.host_key_policy is HostKeyPolicy.ASK
        assert found.user_known_hosts == (HOME / ".ssh/known_hosts", HOME / ".ssh/known_hosts2")
        assert found.global_known_hosts == (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
        assert HOME / ".ssh/id_ed25519" in found.identity_files
        assert found.agent_socket == Path("/run/agent")
        assert found.address_family is socket.AF_UNSPEC
        assert found.password_prompts == 3
        assert not found.identities_only
        assert found.unsupported == ()
        assert found.proxy_command is None
        assert found.jump is None

    def test_home_is_the_accounts_whatever_HOME_says(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "managed"))
        found = settings(tmp_path, "Host box\n IdentityFile ~/key\n IdentityFile %d/%r-%h\n User bob\n")
        assert found.identity_files == (HOME / "key", HOME / "bob-box")
        assert found.user_known_hosts[0] == HOME / ".ssh/known_hosts"

    @pytest.mark.parametrize(
        ("value", "policy"),
        [
            ("ask", HostKeyPolicy.ASK),
            ("yes", HostKeyPolicy.REFUSE),
            ("accept-new", HostKeyPolicy.ACCEPT_NEW),
            ("no", HostKeyPolicy.ACCEPT),
            ("off", HostKeyPolicy.ACCEPT),
        ],
    )
    def test_strict_host_key_checking_has_all_its_values(
        self, tmp_path: Path, value: str, policy: HostKeyPolicy
    ) -> None:
        assert settings(tmp_path, f"StrictHostKeyChecking {value}\n").host_key_policy is policy

    @pytest.mark.parametrize(
        ("value", "socket_path"),
        [
            (None, "/run/agent"),
            ("none", None),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("$SSH_AUTH_SOCK", "/run/agent"),
            ("$REACH_TEST_SOCKET", "/run/other"),
            ("$REACH_TEST_UNSET", None),
            ("~/agent", f"{HOME}/agent"),
            ("/run/%r.sock", "/run/bob.sock"),
        ],
    )
    def test_identity_agent_is_honoured(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, socket_path: str | None
    ) -> None:
        monkeypatch.setenv("REACH_TEST_SOCKET", "/run/other")
        monkeypatch.setenv("SSH_AUTH_SOCK", "/run/not-this")
        line = f" IdentityAgent {value}\n" if value else ""
        found = settings(tmp_path, f"Host box\n User bob\n{line}", agent="/run/agent")
        assert found.agent_socket == (Path(socket_path) if socket_path else None)

    def test_known_hosts_files_are_several_or_none(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "UserKnownHostsFile /a ~/b\nGlobalKnownHostsFile none\n")
        assert found.known_hosts_files == (Path("/a"), HOME / "b")

    def test_methods_that_are_off_are_left_out(self, tmp_path: Path) -> None:
        found = settings(
            tmp_path,
            "PreferredAuthentications password,publickey,keyboard-interactive\n"
            "PubkeyAuthentication no\nKbdInteractiveAuthentication no\n",
        )
        assert found.methods == ("password",)

    def test_jump_hosts_have_their_own_settings(self, tmp_path: Path) -> None:
        found = settings(
            tmp_path,
            "Host box\n ProxyJump eve@first:2201,second\n IdentityFile /box-key\n"
            "Host first\n HostName 10.0.0.1\n IdentityFile /first-key\n Port 9\n"
            "Host second\n User bob\n ProxyJump never\n",
        )
        second = found.jump
        assert second is not None
        assert (second.host, second.user, second.port) == ("second", "bob", 22)
        first = second.jump
        assert first is not None
        assert (first.hostname, first.user, first.port) == ("10.0.0.1", "eve", 2201)
        assert first.identity_files == (Path("/first-key"),)
        assert first.jump is None

    def test_first_jump_host_brings_its_own_jump(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n ProxyJump a\nHost a\n ProxyJump b\n")
        assert found.jump
        assert found.jump.jump
        assert found.jump.jump.host == "b"

    def test_jump_host_that_jumps_through_itself_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="loop|ProxyJump"):
            settings(tmp_path, "Host *\n ProxyJump gate\n")

    def test_jump_hosts_in_a_circle_are_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="ProxyJump"):
            settings(tmp_path, "Host box\n ProxyJump a\nHost a\n ProxyJump b\nHost b\n ProxyJump a\n")

    def test_proxy_command_has_its_tokens_filled_in(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n HostName 10.0.0.1\n User bob\n ProxyCommand nc -x %r@p %h %p %n 100%%\n")
        assert found.proxy_command == "nc -x bob@p 10.0.0.1 22 box 100%"

    def test_proxy_command_none_is_none(self, tmp_path: Path) -> None:
        assert settings(tmp_path, "Host box\n ProxyCommand none\n").proxy_command is None

    def test_numbers_are_read(self, tmp_path: Path) -> None:
        found = settings(
            tmp_path,
            "ConnectTimeout 7\nServerAliveInterval 20\nServerAliveCountMax 2\nNumberOfPasswordPrompts 1\n"
            "ConnectionAttempts 4\nRekeyLimit 64M\n",
        )
        assert (found.connect_timeout_s, found.keepalive_interval_s, found.keepalive_max) == (7, 20, 2)
        assert (found.password_prompts, found.connection_attempts, found.rekey_bytes) == (1, 4, 64 << 20)

    def test_algorithms_are_those_of_the_configuration(self, tmp_path: Path) -> None:
        found = settings(
            tmp_path, "Ciphers aes256-ctr\nMACs -hmac-sha2-*\nKexAlgorithms ^diffie-hellman-group14-sha256\n"
        )
        assert found.ciphers == ("aes256-ctr",)
        assert not any(name.startswith("hmac-sha2-") for name in found.macs)
        assert found.key_exchanges[0] == "diffie-hellman-group14-sha256"
        assert len(found.key_exchanges) > 1

    def test_address_settings_are_read(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n AddressFamily inet6\n BindAddress ::1\n HostKeyAlias al\n")
        assert (found.address_family, found.bind_address) == (socket.AF_INET6, "::1")
        assert found.known_hosts_name == "al"

    def test_key_of_a_token_is_unsupported(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n PKCS11Provider /lib/p11.so\n")
        assert found.unsupported == ("PKCS11Provider /lib/p11.so",)

    def test_security_key_is_unsupported_without_an_agent(self, tmp_path: Path) -> None:
        (tmp_path / "id_sk").write_text("x")
        (tmp_path / "id_sk.pub").write_text("sk-ssh-ed25519@openssh.com AAAA me")
        text = f"Host box\n IdentityFile {tmp_path}/id_sk\n"
        assert "id_sk" in settings(tmp_path, text).unsupported[0]
        assert settings(tmp_path, text, agent="/run/agent").unsupported == ()

    @pytest.mark.parametrize(
        "line",
        [
            "BindInterface lo",
            "VerifyHostKeyDNS yes",
            "Ciphers chacha20-poly1305@openssh.com",
            "MACs umac-128-etm@openssh.com",
            "KexAlgorithms sntrup761x25519-sha512@openssh.com",
        ],
    )
    def test_what_paramiko_has_nothing_for_is_unsupported(self, tmp_path: Path, line: str) -> None:
        assert settings(tmp_path, f"Host box\n    {line}\n").unsupported == (line,)

    def test_list_with_everything_taken_out_allows_nothing(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n    Ciphers -*\n    PubkeyAcceptedAlgorithms -*\n")
        assert (found.ciphers, found.pubkey_algorithms) == ((), ())
        assert found.unsupported == ("Ciphers of nothing",)

    def test_gssapi_is_unsupported_where_it_comes_first(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "PreferredAuthentications gssapi-with-mic,publickey\n")
        assert found.unsupported == ("PreferredAuthentications gssapi-with-mic",)

    def test_running_master_is_named(self, tmp_path: Path) -> None:
        control = tmp_path / "cm-22"
        with socket.socket(socket.AF_UNIX) as master:
            master.bind(str(control))
            master.listen()
            text = f"Host box\n ControlPath {tmp_path}/cm-%p\n"
            assert "ControlPath" in settings(tmp_path, text).unsupported[0]
        control.unlink()
        assert settings(tmp_path, text).unsupported == ()

    def test_unsupported_settings_of_a_jump_host_count(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n ProxyJump gate\nHost gate\n PKCS11Provider /p\n")
        assert found.unsupported == ("PKCS11Provider /p",)

    def test_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nowhere"):
            resolve_settings(Target("box"), config_file=tmp_path / "nowhere", agent_socket=None)


@pytest.mark.usefixtures("ssh_only")
class TestAsSshReadsIt:
    def test_match_final_is_understood(self, tmp_path: Path) -> None:
        found = settings(tmp_path, "Host box\n HostName b.example\nMatch final host b.example\n User fin\n")
        assert found.user == "fin"

    def test_match_final_all_keeps_every_host(self, tmp_path: Path) -> None:
        assert settings(tmp_path, "Match final all\n Port 77\n").port == 77

    def test_included_files_count(self, tmp_path: Path) -> None:
        (tmp_path / "more").write_text("Host box\n User included\n")
        assert settings(tmp_path, f"Include {tmp_path}/mo*\n").user == "included"

    def test_identity_file_with_spaces_is_one_file(self, tmp_path: Path) -> None:
        found = settings(tmp_path, 'IdentityFile "/a b/key"\nUserKnownHostsFile "/c d/known" /e\n')
        assert found.identity_files == (Path("/a b/key"),)
        assert found.user_known_hosts == (Path("/c d/known"), Path("/e"))

    def test_bad_configuration_is_reported_in_sshs_words(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="Bad configuration option: frobnicate"):
            settings(tmp_path, "Frobnicate yes\n")

    def test_host_cannot_be_taken_for_an_option(self, tmp_path: Path) -> None:
        marker = tmp_path / "ran"
        with pytest.raises(ConfigError):
            resolve_settings(Target(f"-oProxyCommand=touch {marker}"), config_file=Path("/dev/null"), agent_socket=None)
        assert not marker.exists()

    def test_ssh_that_hangs_is_given_up(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config, "SSH_TIMEOUT_S", 0.2)
        with pytest.raises(ConfigError, match="did not end"):
            settings(tmp_path, 'Match exec "exec sleep 60"\n User x\n')


class TestWithoutSsh:
    @pytest.fixture(autouse=True)
    def _no_ssh(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config.shutil, "which", lambda name: None)

    def test_match_exec_runs_its_command(self, tmp_path: Path) -> None:
        text = f'Match exec "test -e {tmp_path}/here"\n User by-exec\n'
        before = settings(tmp_path, text).user
        (tmp_path / "here").touch()
        assert settings(tmp_path, text).user == "by-exec" != before

    @pytest.mark.parametrize(
        "text",
        ["Match final all\n User x\n", "Match localnetwork 10.0.0.0/8\n User x\n", "Match tagged x\n User x\n"],
    )
    def test_what_the_parser_would_misread_is_an_error(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(ConfigError, match="ssh client"):
            settings(tmp_path, text)

    def test_included_files_count(self, tmp_path: Path) -> None:
        (tmp_path / "more").write_text("Host box\n User included\n")
        assert settings(tmp_path, f"Include {tmp_path}/mo*\nHost box\n User late\n").user == "included"

    def test_include_inside_a_host_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="ssh client"):
            settings(tmp_path, "Host box\n Include more\n")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gate", Target("gate")),
        ("bob@gate:2222", Target("gate", "bob", 2222)),
        ("[::1]:33", Target("::1", None, 33)),
        ("u@[fe80::1]", Target("fe80::1", "u")),
        ("bob@corp@gate", Target("gate", "bob@corp")),
        ("ssh://bob@gate:22", Target("gate", "bob", 22)),
    ],
)
def test_jump_host_is_read(text: str, target: Target) -> None:
    assert parse_jump(text) == target


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "u@-x", "-u@x", "a:b", "a:b:c", "gate:"])
def test_jump_host_that_makes_no_sense_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_jump(text)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1m30s", 90), ("2h", 7200), ("1D", 86400), ("0", 0)])
def test_time_is_read_as_ssh_config_writes_it(text: str, seconds: int) -> None:
    assert parse_seconds("ConnectTimeout", text) == seconds


def test_time_that_makes_no_sense_is_an_error() -> None:
    with pytest.raises(ConfigError, match="ConnectTimeout"):
        parse_seconds("ConnectTimeout", "soon")


def test_paths_with_spaces_are_put_together_again() -> None:
    assert split_paths("/a b/c /d ~/e f") == ["/a b/c", "/d", "~/e f"]
