from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from reach.ssh.operator import NobodyThere
from reach.ssh.secrets import Secrets


@pytest.fixture
def secrets() -> Secrets:
    secrets = Secrets()
    secrets.keep_passphrase(Path("/key"), "open sesame")
    secrets.keep_answer("bob@box", "Password: ", "hunter2")
    return secrets


def test_secrets_are_recalled_by_what_they_are_for(secrets: Secrets) -> None:
    assert secrets.passphrase(Path("/key")) == "open sesame"
    assert secrets.passphrase(Path("/other")) is None
    assert secrets.answer("bob@box", "Password: ") == "hunter2"
    assert secrets.answer("eve@box", "Password: ") is None
    assert secrets.answer("bob@box", "Code: ") is None


def test_secrets_do_not_show_themselves(secrets: Secrets) -> None:
    assert "open" not in repr(secrets) + str(secrets) + f"{secrets}"
    assert "hunter2" not in repr(secrets)
    with pytest.raises(TypeError):
        pickle.dumps(secrets)
    with pytest.raises(TypeError):
        copy.copy(secrets)


def test_forgotten_answer_is_gone(secrets: Secrets) -> None:
    secrets.forget_answer("bob@box", "Password: ")
    secrets.forget_answer("bob@box", "never given")
    assert secrets.answer("bob@box", "Password: ") is None


def test_nobody_there_answers_nothing() -> None:
    assert NobodyThere().ask("Password: ", echo=False) is None
