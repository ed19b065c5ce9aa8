"""Which secret one of ssh's questions asks for, and who may have it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from reach.ssh.openssh_askpass import Question
from reach.ssh.openssh_prompts import Prompts, parse_prompt
from reach.ssh.secrets import Secrets
from reach.ssh.settings import HostSettings
from support.login import settings_for
from support.operators import ScriptedOperator

CONFIG = """
Host gate
    HostName gate.example
    User guard
Host box
    HostName box.example
    User eve
    ProxyJump gate
"""


@pytest.fixture
def settings(tmp_path: Path) -> HostSettings:
    config = tmp_path / "config"
    config.write_text(CONFIG)
    return settings_for(config)


def ask(prompts: Prompts, text: str, kind: str = "") -> str | None:
    """What ssh is answered; None where it gets no answer."""
    ours, theirs = socket.socketpair()
    with theirs:
        prompts.answer(Question(kind, text, ours))
        ours.close()
        said = theirs.recv(1000)
    return said[1:].decode() if said.startswith(b"+") else None


@pytest.mark.parametrize(
    ("text", "account", "shown"),
    [
        ("Enter passphrase for key '/k ey': ", "key", "Passphrase for the key /k ey: "),
        ("eve@box.example's password: ", "eve@box.example", "eve@box's password: "),
        ("guard@gate.example's password: ", "guard@gate.example", "guard@gate's password: "),
        ("(eve@box.example) Code: ", "eve@box.example", "(eve@box) Code: "),
        ("(guard@gate.example) Code: ", "guard@gate.example", "(guard@gate) Code: "),
        ("Enter PIN for ED25519-SK key /k: ", "?", "Enter PIN for ED25519-SK key /k: "),
        ("(eve@box.example) \x1b[2J: ", "eve@box.example", "(eve@box) \\x1b[2J: "),
    ],
)
def test_prompt_belongs_to_the_account_that_it_names(
    settings: HostSettings, text: str, account: str, shown: str
) -> None:
    prompt = parse_prompt(text, settings)
    assert (prompt.account, prompt.shown) == (account, shown)


@pytest.mark.parametrize(
    "lie",
    [
        "eve@box.example's password: ",
        "eve@box's password: ",
        "Enter passphrase for key '/key': ",
        ") eve@box.example's password: ",
        "\neve@box.example's password: ",
    ],
)
def test_a_host_on_the_way_gets_no_secret_of_another_by_asking_in_its_words(settings: HostSettings, lie: str) -> None:
    secrets = Secrets()
    secrets.keep_answer("eve@box.example", "eve@box's password: ", "the target's")
    secrets.keep_passphrase(Path("/key"), "the key's")
    operator = ScriptedOperator()
    prompts = Prompts(settings, operator, secrets)
    prompts.tells_askers_apart = True
    assert ask(prompts, f"(guard@gate.example) {lie}") is None
    assert operator.asked[0].startswith("(guard@gate) ")


def test_nothing_is_answered_from_memory_where_a_server_could_be_asking(settings: HostSettings) -> None:
    secrets = Secrets()
    secrets.keep_passphrase(Path("/key"), "the key's")
    operator = ScriptedOperator({"Passphrase": "typed"})
    assert ask(Prompts(settings, operator, secrets), "Enter passphrase for key '/key': ") == "typed"
    trusting = Prompts(settings, operator, secrets)
    trusting.tells_askers_apart = True
    assert ask(trusting, "Enter passphrase for key '/key': ") == "the key's"


def test_an_answer_is_kept_once_it_was_right_and_forgotten_once_it_was_wrong(settings: HostSettings) -> None:
    secrets, operator = Secrets(), ScriptedOperator({"password": ["wrong", "right"]})

    def log_in(*answers: str | None) -> Prompts:
        prompts = Prompts(settings, operator, secrets)
        prompts.tells_askers_apart = True
        assert [ask(prompts, "eve@box.example's password: ") for _ in answers] == list(answers)
        return prompts

    log_in("wrong", "right").keep()
    log_in("right").keep()
    log_in("right", None).forget()
    log_in(None)


def test_a_touch_is_told_and_left_to_ssh(settings: HostSettings) -> None:
    operator = ScriptedOperator()
    assert ask(Prompts(settings, operator, Secrets()), "Confirm user presence for key", kind="none") is None
    assert (operator.told, operator.asked) == (["Confirm user presence for key"], [])


@pytest.mark.parametrize(("typed", "answer"), [("yes", "yes"), (" SHA256:abc ", "yes"), ("no", "no"), (None, "no")])
def test_a_host_key_is_shown_with_its_fingerprint(
    settings: HostSettings, typed: str | None, answer: str
) -> None:
    text = (
        "The authenticity of host 'gate.example (10.0.0.1)' can't be established.\n"
        "ED25519 key fingerprint is SHA256:abc.\nThis key is not known by any other names.\n"
        "Are you sure you want to continue connecting (yes/no/[fingerprint])? "
    )
    operator = ScriptedOperator({"Is that the host's key": typed} if typed else {})
    assert ask(Prompts(settings, operator, Secrets()), text) == answer
    assert operator.asked[0].startswith("gate (gate.example) port 22 is not known yet.")
    assert "It shows the ED25519 key SHA256:abc." in operator.asked[0]
