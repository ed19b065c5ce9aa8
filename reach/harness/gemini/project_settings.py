"""A project's own `.gemini/settings.json` in a real local workspace, which outranks the managed one in HOME.

Only for versions that can't be made to leave it out (`Abilities.skip_trust`).
"""

from __future__ import annotations

from pathlib import Path

from reach.errors import ConfigError
from reach.harness.gemini.preferences import load_settings, value_at

_OPENING = (
    "coreTools",
    "excludeTools",
    "tools.core",
    "tools.exclude",
    "tools.sandbox",
    "sandbox",
    "tools.discoveryCommand",
    "tools.callCommand",
    "toolDiscoveryCommand",
    "toolCallCommand",
    "mcpServers",
    "mcpServerCommand",
    "mcp",
    "hooks",
    "hooksConfig",
    "agents",
    "context.includeDirectories",
    "includeDirectories",
)
"""Settings that bring back a local tool, start a program here or show more local files."""


def check_project_settings(workspace: Path) -> None:
    """Raises: ConfigError, naming the first setting that would undo what the managed home does."""
    path = workspace / ".gemini" / "settings.json"
    settings = load_settings(path)
    for name in _OPENING:
        if value_at(settings, name) not in (None, False, {}, []):
            raise ConfigError(
                f"{path} sets {name}, and with this version of Gemini CLI it would outrank reach's own",
                fix="take it out, leave out --workspace, or use a newer version: reach harness install gemini",
            )
