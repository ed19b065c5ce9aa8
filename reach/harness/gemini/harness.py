"""Gemini CLI behind the Harness protocol."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reach.errors import HarnessError
from reach.harness.base import Environment, Place, Preparation
from reach.harness.credential_links import link_credentials
from reach.harness.gemini import policy, tools
from reach.harness.gemini.arguments import check_arguments
from reach.harness.gemini.environment import REMOVED, launch_variables
from reach.harness.gemini.orientation import find_imports, render_orientation
from reach.harness.gemini.preferences import carried_over, changed_since, load_settings, merge
from reach.harness.gemini.project_settings import check_project_settings
from reach.harness.gemini.settings import managed_settings
from reach.harness.gemini.versions import Abilities, abilities
from reach.harness.gemini.warning import show_inside
from reach.harness.workspace import BOUNDARY_MARKER
from reach.paths import ensure_private_dir, write_private

CREDENTIALS = ("oauth_creds.json", "google_accounts.json", "installation_id", "gemini-credentials.json")
"""Not mcp-oauth-tokens.json: no MCP server runs in a session."""

_PROBE_AUTH = "gemini-api-key"

_WRITTEN = "reach-settings.json"
"""A copy of the settings as reach wrote them: what differs at the next launch, the operator chose in the session."""

_CHOICES = "reach-choices.json"

_MANAGED_AWAY = ("extensions", "skills", "agents", "commands", "hooks", "policies", ".env")
"""Below HOME/.gemini: what an earlier run may have left there and would be loaded."""


class GeminiHarness:
    name = "gemini"
    title = "Gemini CLI"
    command = "gemini"
    npm_package = "@google/gemini-cli"
    instruction_file = "GEMINI.md"
    allowed_tools = frozenset(tools.ALLOWED)

    def find_imports(self, text: str) -> Iterator[tuple[int, int, str]]:
        return find_imports(text)

    def check_arguments(self, arguments: Sequence[str]) -> None:
        check_arguments(arguments)

    def prepare(self, place: Place, version: str | None, environment: Environment) -> Preparation:
        able = abilities(version)
        if not place.is_managed_workspace and not able.skip_trust:
            check_project_settings(place.workspace)
        folder = ensure_private_dir(place.home / ".gemini")
        _clear(folder)
        preferences, notes = _preferences(folder, place.operator_home)
        settings = _json(managed_settings(preferences, able))
        for name in ("settings.json", _WRITTEN):
            write_private(folder / name, settings)
        write_private(folder / "GEMINI.md", render_orientation(place).encode(errors="replace"))
        write_private(folder / BOUNDARY_MARKER, b"")
        return Preparation(
            arguments=tuple(_write_policy(folder, able)),
            set_environment=launch_variables(place, environment, able),
            remove_environment=REMOVED,
            fingerprint=_fingerprint(able),
            notes=tuple(notes),
        )

    def probe_arguments(self, prompt: str) -> list[str]:
        return ["--yolo", "-m", "gemini-2.5-pro", "-p", prompt]

    def probe_environment(self, mock_url: str) -> dict[str, str]:
        return {"GEMINI_API_KEY": "no-secret", "GOOGLE_GEMINI_BASE_URL": mock_url}

    def show_inside(self, text: str, environment: Environment) -> dict[str, str]:
        return show_inside(text, environment)


def _preferences(folder: Path, operator_home: Path | None) -> tuple[dict[str, Any], list[str]]:
    """The operator's preferences, and lines for them; the credential files are linked on the way."""
    if operator_home is None:
        return {"selectedAuthType": _PROBE_AUTH, "security": {"auth": {"selectedType": _PROBE_AUTH}}}, []
    real = operator_home / ".gemini"
    preferences = carried_over(load_settings(real / "settings.json"))
    merge(preferences, _choices(folder))
    return preferences, link_credentials(folder, real, CREDENTIALS)


def _choices(folder: Path) -> dict[str, Any]:
    """What the operator has chosen inside this session, now and in earlier runs; kept in a file of its own."""
    choices: dict[str, Any] = {}
    try:
        choices = carried_over(load_settings(folder / _CHOICES))
        merge(choices, changed_since(load_settings(folder / _WRITTEN), load_settings(folder / "settings.json")))
    except HarnessError:  # damaged files in the managed home are reach's to write anew
        pass
    write_private(folder / _CHOICES, _json(choices))
    return choices


def _write_policy(folder: Path, able: Abilities) -> list[str]:
    """Write the policy where the version reads one; return the arguments that go before the operator's own."""
    arguments: list[str] = []
    if able.admin_policy:
        policies = ensure_private_dir(folder / "policies")
        # There too, as a policy of the user's: one of the system's makes Gemini CLI ignore --admin-policy.
        for path in (folder / "reach-policy.toml", policies / "reach.toml"):
            write_private(path, policy.render_policy().encode())
        arguments.append(f"--admin-policy={folder / 'reach-policy.toml'}")
    if able.skip_trust:
        arguments.append("--skip-trust")
    if able.mcp_names:
        arguments.append("--allowed-mcp-server-names=none")
    return arguments


def _clear(folder: Path) -> None:
    for name in _MANAGED_AWAY:
        found = folder / name
        try:
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found)
            else:
                found.unlink(missing_ok=True)
        except OSError as error:
            raise HarnessError(f"{found}: {error.strerror}", fix="remove it") from None


def _json(settings: dict[str, Any]) -> bytes:
    return json.dumps(settings, indent=2).encode() + b"\n"


def _fingerprint(able: Abilities) -> str:
    parts = (
        _json(managed_settings({}, able)),
        policy.render_policy().encode() if able.admin_policy else b"",
        "\n".join(sorted(REMOVED)).encode(),
    )
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
