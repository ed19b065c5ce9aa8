"""What a marked test needs from the machine: found, or the reason why not."""

from __future__ import annotations

import os
import shutil
from functools import cache

from reach.harness.install import installed
from reach.harness.registry import get_harness
from reach.paths import Paths
from support import kerberos, sshd, token


def must_have_all() -> bool:
    """Whether a missing part is a failure here, not a reason to skip."""
    return bool(os.environ.get("CI") or os.environ.get("REACH_TEST_REQUIRE_ALL") == "1")


def find_gemini() -> str | None:
    """The real Gemini CLI: REACH_TEST_GEMINI, else one that reach installed, else the one on PATH."""
    if named := os.environ.get("REACH_TEST_GEMINI"):
        return shutil.which(named)
    there = installed(get_harness("gemini"), Paths.from_environment())
    return str(there[-1].binary) if there else shutil.which("gemini")


@cache
def missing_for(marker: str) -> str | None:
    """Why a test with MARKER can't run here, or None when it can."""
    if marker == "sshd":
        return sshd.is_available()
    if marker == "gemini" and not find_gemini():
        return "no Gemini CLI: set REACH_TEST_GEMINI to its path, or type: reach harness install gemini"
    if marker == "kerberos":
        return kerberos.is_available()
    if marker == "pkcs11":
        return token.is_available()
    if marker == "root" and os.geteuid() != 0:
        return "needs root"
    return None
