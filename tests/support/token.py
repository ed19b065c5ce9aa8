"""A PKCS#11 token in software, with one key in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PIN = "5678"
_LABEL = "reach"
_PROVIDERS = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so")


def provider() -> str | None:
    """The library that ssh loads."""
    return next((path for path in _PROVIDERS if os.path.exists(path)), None)


def is_available() -> str | None:
    """Why there can be no token here; None when there can."""
    return None if provider() and shutil.which("softhsm2-util") else "no SoftHSM: apt-get install softhsm2"


class Token:
    """Lies in FOLDER; whoever is to use it needs `environment`."""

    def __init__(self, folder: Path) -> None:
        config, key = folder / "softhsm2.conf", folder / "key"
        (folder / "tokens").mkdir()
        config.write_text(f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\n")
        self.environment = {"SOFTHSM2_CONF": str(config)}
        self._run("softhsm2-util", "--init-token", "--free", "--label", _LABEL, "--so-pin", PIN, "--pin", PIN)
        self._run("ssh-keygen", "-q", "-t", "ecdsa", "-m", "PKCS8", "-N", "", "-f", str(key))
        imported = ("--import", str(key), "--token", _LABEL, "--label", "key", "--id", "01", "--pin", PIN)
        self._run("softhsm2-util", *imported)
        key.unlink()
        self.public_line = key.with_name("key.pub").read_text()
        """As authorized_keys has it."""

    def _run(self, *argv: str) -> None:
        environment = {**os.environ, **self.environment}
        done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
