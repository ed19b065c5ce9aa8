"""How ssh is called, asked of ssh itself: what it makes of the options that stand on its command line."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from reach.ssh.openssh_argv import master_argv, ssh_environment
from reach.ssh.settings import HostSettings
from support.login import settings_for

CONFIG = """
Host gate
    HostName gate.example
    User guard
    ControlPersist 600
    ForwardAgent yes
Host box
    HostName box.example
    Port 2222
    User eve
    ProxyJump %(jump)s
    ForwardAgent yes
    ForwardX11 yes
    ControlMaster auto
    ControlPath ~/somewhere
    ControlPersist 600
    RemoteForward 1 localhost:2
    LocalForward 3 localhost:4
    DynamicForward 5
    RemoteCommand rm -rf /
    RequestTTY force
    PermitLocalCommand yes
    LocalCommand touch /tmp/x
    Tunnel yes
    StrictHostKeyChecking no
    UpdateHostKeys yes
    AddKeysToAgent yes
"""


TOKENS = {"%": "%", "h": "HOST", "p": "PORT"}


def made(tmp_path: Path, jump: str = "none") -> tuple[list[str], HostSettings]:
    config = tmp_path / "config"
    config.write_text(CONFIG % {"jump": jump})
    settings = settings_for(config)
    return master_argv("ssh", settings, config, tmp_path / "100% sure" / "m"), settings


def options_of(argv: list[str]) -> dict[str, str]:
    """What `ssh -G` says that ARGV comes to."""
    done = subprocess.run([argv[0], "-G", *argv[1:]], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("forwardagent", "no"),
        ("forwardx11", "no"),
        ("clearallforwardings", "yes"),
        ("permitlocalcommand", "no"),
        ("requesttty", "false"),
        ("tunnel", "false"),
        ("controlmaster", "true"),
        ("controlpersist", "5"),
        ("stricthostkeychecking", "accept-new"),
        ("updatehostkeys", "false"),
        ("addkeystoagent", "false"),
        ("sessiontype", "none"),
        ("user", "eve"),
        ("port", "2222"),
        ("hostname", "box.example"),
    ],
)
def test_the_command_line_holds_whatever_the_configuration_says(tmp_path: Path, keyword: str, value: str) -> None:
    argv, _ = made(tmp_path)
    assert options_of(argv)[keyword] == value


def test_nothing_is_forwarded_and_nothing_else_is_run(tmp_path: Path) -> None:
    options = options_of(made(tmp_path)[0])
    for keyword in ("localforward", "remoteforward", "dynamicforward", "remotecommand", "localcommand"):
        assert options.get(keyword, "none") in ("none", "touch /tmp/x"), keyword


def test_the_master_listens_where_it_is_told_to(tmp_path: Path) -> None:
    assert options_of(made(tmp_path)[0])["controlpath"] == str(tmp_path / "100% sure" / "m")


@pytest.mark.parametrize("jump", ["gate", "gate,other@middle.example:2200"])
def test_a_jump_host_is_gone_through_by_an_ssh_that_is_called_as_carefully(tmp_path: Path, jump: str) -> None:
    argv, settings = made(tmp_path, jump)
    command = options_of(argv)["proxycommand"]
    hop = settings.jump
    while hop:
        words = shlex.split(re.sub("%(.)", lambda found: TOKENS[found[1]], command))
        assert words[words.index("-W") + 1] == "[HOST]:PORT"
        assert words[-1] == hop.host
        inner = options_of([word for word in words if word not in ("-W", "[HOST]:PORT")])
        assert inner["forwardagent"] == "no"
        assert inner["controlmaster"] == "false"
        assert inner["controlpersist"] == "no"
        command, hop = inner.get("proxycommand", ""), hop.jump


def test_the_environment_has_our_way_to_ask_and_not_the_operators(tmp_path: Path) -> None:
    given = {"SSH_ASKPASS": "/theirs", "SSH_AUTH_SOCK": "/theirs", "SHELL": "/bin/zsh", "KRB5CCNAME": "k"}
    made_of = ssh_environment(given, "/agent", Path("/ask"), Path("/socket"))
    assert made_of["SSH_AUTH_SOCK"] == "/agent"
    assert made_of["SSH_ASKPASS"] == "/ask"
    assert made_of["SHELL"] == "/bin/zsh"
    assert made_of["KRB5CCNAME"] == "k"
    assert "SSH_AUTH_SOCK" not in ssh_environment(given, None, Path("/ask"), Path("/socket"))
    assert os.environ.get("SSH_ASKPASS") != "/ask"


def test_match_meets_what_it_meets_for_ssh(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        'Match user eve\n    BindAddress 192.0.2.1\nMatch exec "test %p = 2222"\n    HostKeyAlias other\n'
        "Host gate\n    User eve\n    Port 2222\nHost box\n    User eve\n    Port 2222\n    ProxyJump gate\n"
    )
    settings = settings_for(config)
    assert settings.jump
    for argv in (
        master_argv("ssh", settings, config, tmp_path / "m"),
        shlex.split(options_of(master_argv("ssh", settings, config, tmp_path / "m"))["proxycommand"]),
    ):
        options = options_of([word for word in argv if word not in ("-W", "[%h]:%p")])
        assert (options["user"], options["port"]) == ("eve", "2222")
        assert not {"bindaddress", "hostkeyalias"} & set(options)
