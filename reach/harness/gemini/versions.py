"""What a version of Gemini CLI can be told on its command line. An option it doesn't know makes it stop."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MCP_NAMES_SINCE = (0, 20, 0)
"""The option is older, but then it takes a prompt that follows for one more name."""
_ADMIN_POLICY_SINCE = (0, 35, 0)
_SKIP_TRUST_SINCE = (0, 42, 0)


@dataclass(frozen=True)
class Abilities:
    """The oldest version seen to have each is the one that counts."""

    admin_policy: bool
    """`--admin-policy FILE`."""
    skip_trust: bool
    """`--skip-trust`, read after the settings: a project's settings are left out as an untrusted folder's, and the
    folder counts as trusted all the same."""
    mcp_names: bool
    """`--allowed-mcp-server-names=NAME` outranks a project's settings."""


def abilities(version: str | None) -> Abilities:
    """Those of VERSION; one that can't be told is taken for the newest."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version or "")
    numbers = tuple(int(n) for n in match.groups()) if match else (999, 0, 0)
    return Abilities(
        admin_policy=numbers >= _ADMIN_POLICY_SINCE,
        skip_trust=numbers >= _SKIP_TRUST_SINCE,
        mcp_names=numbers >= _MCP_NAMES_SINCE,
    )
