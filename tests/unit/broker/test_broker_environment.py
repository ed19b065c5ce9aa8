"""The variables that a broker is started with, whoever starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reach.broker.lifecycle import _environment
from shim.local_shell import SHIM_MARK


def test_no_command_of_ssh_config_goes_by_way_of_a_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "bash"
    shim.write_bytes(b"#!/usr/bin/python3\n" + SHIM_MARK + b"\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin")
    monkeypatch.setenv("SHELL", str(shim))
    assert (_environment()["PATH"], _environment().get("SHELL")) == ("/usr/bin", None)
    monkeypatch.setenv("SHELL", "/bin/sh")
    assert _environment()["SHELL"] == "/bin/sh"
