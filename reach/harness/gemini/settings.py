"""The managed settings.json: the operator's harmless preferences, and over them what keeps the seam
closed."""

from __future__ import annotations

import copy
from typing import Any

from reach.harness.gemini.preferences import merge, set_at
from reach.harness.gemini.tools import ALLOWED, DENIED
from reach.harness.gemini.versions import Abilities
from reach.harness.workspace import BOUNDARY_MARKER

INACTIVITY_TIMEOUT_S = 86_400
"""Gemini CLI ends a command that is silent for this long; its own 300 s would end builds and long tests. A
target that is gone is noticed by the broker, not by silence."""

_FORCED: dict[str, Any] = {
    # Tools, by every mechanism there has been: each version ignores some of them without a word.
    "excludeTools": list(DENIED),
    "coreTools": list(ALLOWED),
    "tools.exclude": list(DENIED),
    "tools.core": list(ALLOWED),
    "tools.sandbox": False,
    "sandbox": False,
    # Programs that Gemini CLI would start on this machine.
    "mcpServers": {},
    "allowMCPServers": [],
    "mcp.allowed": [],
    "hooksConfig.enabled": False,
    "tools.enableHooks": False,
    "hooks": {},
    "skills.enabled": False,
    "experimental.enableAgents": False,
    "experimental.extensionManagement": False,
    "experimental.worktrees": False,
    "ide.enabled": False,
    "ideMode": False,
    "general.checkpointing.enabled": False,
    # Files that would be shown to the model.
    "contextFileName": "GEMINI.md",
    "context.fileName": "GEMINI.md",
    # The tree begins with the workspace's path here; the orientation names the target's folders by theirs.
    "context.includeDirectoryTree": False,
    "context.includeDirectories": [],
    "context.loadMemoryFromIncludeDirectories": False,
    "context.memoryBoundaryMarkers": [".git", BOUNDARY_MARKER],
    "advanced.ignoreLocalEnv": True,
    # A harness that changes itself under way is not the one that was verified.
    "general.enableAutoUpdate": False,
    "general.enableAutoUpdateNotification": False,
    "disableAutoUpdate": True,
    "disableUpdateNag": True,
    # Advice about tools that there aren't, and about a temporary folder that isn't on the target.
    "general.topicUpdateNarration": False,
    "experimental.topicUpdateNarration": False,
    "tools.shell.enableShellOutputEfficiency": False,
    "telemetry": {"enabled": False},
    "privacy.usageStatisticsEnabled": False,
    "usageStatisticsEnabled": False,
}

_DEFAULTS: dict[str, Any] = {
    "tools.shell.inactivityTimeout": INACTIVITY_TIMEOUT_S,
}


def managed_settings(preferences: dict[str, Any], able: Abilities) -> dict[str, Any]:
    """The whole content of the managed settings.json. PREFERENCES are what `carried_over` let through."""
    settings: dict[str, Any] = {}
    for path, value in _DEFAULTS.items():
        set_at(settings, path, value)
    merge(settings, copy.deepcopy(preferences))
    for path, value in _FORCED.items():
        set_at(settings, path, copy.deepcopy(value))
    if able.admin_policy:
        del settings["tools"]["core"]
    # An untrusted folder's settings are left out, and an unattended run in it fails: --skip-trust mends the second.
    for path in ("security.folderTrust.enabled", "folderTrust", "folderTrustFeature"):
        set_at(settings, path, able.skip_trust)
    return settings
