"""What is carried over from the operator's own settings.json: preferences that reach neither tools nor
files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reach.errors import HarnessError

_CARRIED_GROUPS = ("ui", "output", "billing")
"""Groups of the newer layout that are carried over whole."""

_CARRIED = (
    "general.preferredEditor",
    "general.openEditorInNewWindow",
    "general.vimMode",
    "general.defaultApprovalMode",
    "general.enableNotifications",
    "general.notificationMethod",
    "general.retryFetchErrors",
    "general.maxAttempts",
    "general.sessionRetention",
    "model.name",
    "model.maxSessionTurns",
    "model.compressionThreshold",
    "model.disableLoopDetection",
    "model.skipNextSpeakerCheck",
    "security.auth.selectedType",
    "security.auth.enforcedType",
    "security.auth.useExternal",
    "security.disableYoloMode",
    "security.disableAlwaysAllow",
    "tools.shell.enableInteractiveShell",
    "tools.shell.showColor",
    "tools.shell.inactivityTimeout",
    "tools.truncateToolOutputThreshold",
    "advanced.dnsResolutionOrder",
    "advanced.autoConfigureMemory",
)

_CARRIED_FLAT = (
    "theme",
    "customThemes",
    "selectedAuthType",
    "enforcedAuthType",
    "useExternalAuth",
    "vimMode",
    "preferredEditor",
    "hideTips",
    "hideBanner",
    "hideFooter",
    "hideWindowTitle",
    "hideContextSummary",
    "showMemoryUsage",
    "showLineNumbers",
    "accessibility",
    "maxSessionTurns",
    "dnsResolutionOrder",
    "autoConfigureMaxOldSpaceSize",
)
"""The older layout, in which every setting stands at the top."""

MAX_SETTINGS_BYTES = 1 << 20


def load_settings(path: Path) -> dict[str, Any]:
    """The operator's settings; an absent file is an empty one.

    Raises: HarnessError where it can't be read: the file is left as it is.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_SETTINGS_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", fix="mend it, or move it away") from None
    try:
        if len(text) > MAX_SETTINGS_BYTES:
            raise ValueError(f"more than {MAX_SETTINGS_BYTES} bytes")
        settings = json.loads(strip_comments(text.decode("utf-8-sig")) or "{}")
        if not isinstance(settings, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        raise HarnessError(
            f"your Gemini CLI settings, {path}, are not JSON ({error})", fix="mend the file, or move it away"
        ) from None
    return settings


def carried_over(settings: dict[str, Any]) -> dict[str, Any]:
    """The allowed part of SETTINGS, in the layout that each setting stands in."""
    carried: dict[str, Any] = {}
    for group in _CARRIED_GROUPS:
        if isinstance(settings.get(group), dict):
            carried[group] = settings[group]
    for name in _CARRIED_FLAT:
        if name in settings:
            carried[name] = settings[name]
    if isinstance(settings.get("model"), str):
        carried["model"] = {"name": settings["model"]}
    for path in _CARRIED:
        found = value_at(settings, path)
        if found is not None:
            set_at(carried, path, found)
    _carry_sign_in_across(carried)
    return carried


def changed_since(written: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The allowed part of what differs between FOUND, a managed settings file after a run, and WRITTEN, what reach had
    written: the operator's choices inside that session."""
    changes: dict[str, Any] = {}
    before = carried_over(written)
    for path, value in _leaves(carried_over(found)):
        if value_at(before, path) != value:
            set_at(changes, path, value)
    return changes


def _leaves(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if "." in name:  # no path leads to it
            continue
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    """Put OTHER's settings over those of INTO, group by group."""
    for name, value in other.items():
        inner = into.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            merge(inner, value)
        else:
            into[name] = value


def _carry_sign_in_across(carried: dict[str, Any]) -> None:
    """Give the sign-in type under both of its names: a home without it asks how to sign in again."""
    selected = value_at(carried, "security.auth.selectedType") or carried.get("selectedAuthType")
    if isinstance(selected, str):
        set_at(carried, "security.auth.selectedType", selected)
        carried["selectedAuthType"] = selected


def value_at(settings: dict[str, Any], path: str) -> Any:
    """The setting at PATH, groups separated by dots; None where there is none."""
    value: Any = settings
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def set_at(settings: dict[str, Any], path: str, value: Any) -> None:
    """Set the setting at PATH, groups separated by dots; a group that is no object is replaced."""
    *groups, last = path.split(".")
    for name in groups:
        inner = settings.get(name)
        if not isinstance(inner, dict):
            inner = settings[name] = {}
        settings = inner
    settings[last] = value


_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def strip_comments(text: str) -> str:
    """JSON out of JSON with comments and trailing commas; strings are left alone."""
    without = _STRING_OR_COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else " ", text)
    return _STRING_OR_LAST_COMMA.sub(lambda m: m[0] if m[0].startswith('"') else "", without).strip()
