"""The variables of a Gemini CLI launch: what is set, what is taken away, and why."""

from __future__ import annotations

from pathlib import Path

from reach.harness.base import Environment, Place
from reach.harness.dotenv import load_dotenv
from reach.harness.gemini.versions import Abilities

REMOVED = frozenset(
    {
        # Files in place of the managed ones.
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
        "GEMINI_CLI_TRUSTED_FOLDERS_PATH",
        "GEMINI_SYSTEM_MD",
        "GEMINI_WRITE_SYSTEM_MD",
        "GEMINI_EXP",
        "GEMINI_CLI_EXTENSION_REGISTRY_URI",
        # A container in place of the shim.
        "SANDBOX",
        "SANDBOX_ENV",
        "SANDBOX_FLAGS",
        "SANDBOX_MOUNTS",
        "SANDBOX_PORTS",
        "SANDBOX_SET_UID_GID",
        "BUILD_SANDBOX",
        "GEMINI_SANDBOX_IMAGE",
        "GEMINI_SANDBOX_PROXY_COMMAND",
        # Whether the folder is trusted is reach's to say.
        "GEMINI_RESTRICTED_MODE",
        "GEMINI_CLI_TRUST_WORKSPACE",
        # Switches for Gemini CLI's own tests.
        "GEMINI_CLI_INTEGRATION_TEST",
        "VITEST",
        # An editor that would hand over the names and content of open files.
        "GEMINI_CLI_IDE_SERVER_PORT",
        "GEMINI_CLI_IDE_WORKSPACE_PATH",
        "GEMINI_CLI_IDE_AUTH_TOKEN",
        "GEMINI_CLI_IDE_PID",
        "GEMINI_CLI_IDE_SERVER_STDIO_COMMAND",
        "GEMINI_CLI_IDE_SERVER_STDIO_ARGS",
        # Left by a Gemini CLI above this one. The first three tell a hook from a command of the model's.
        "GEMINI_PROJECT_DIR",
        "GEMINI_SESSION_ID",
        "GEMINI_CWD",
        "GEMINI_CLI",
        "GEMINI_CLI_NO_RELAUNCH",
        "GEMINI_CLI_WORKTREE_HANDLED",
        "GEMINI_PTY_INFO",
        # Copies of the conversation, written to files or sent elsewhere.
        "GEMINI_CLI_ACTIVITY_LOG_TARGET",
        "GEMINI_CONTEXT_TRACE_DIR",
        "GEMINI_TELEMETRY_ENABLED",
    }
)

_SIGN_IN = (
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_GCA",
    "GEMINI_MODEL",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
"""Taken from the operator's own `.env`, where people are told to keep the key."""


def launch_variables(place: Place, environment: Environment, able: Abilities) -> dict[str, str]:
    """What to set for a launch in PLACE, given the operator's ENVIRONMENT."""
    variables = {
        "HOME": str(place.home),
        "GEMINI_CLI_HOME": str(place.home),
        # Set and not removed: it outranks a project's settings, and a project's .env can't set it again.
        "GEMINI_SANDBOX": "false",
    }
    if not able.skip_trust:
        variables["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
    if place.operator_home is not None:
        for name, value in _operators_dotenv(place.operator_home).items():
            if name in _SIGN_IN and name not in environment:
                variables[name] = value
        gcloud = place.operator_home / ".config" / "gcloud"
        if "CLOUDSDK_CONFIG" not in environment and gcloud.is_dir():
            variables["CLOUDSDK_CONFIG"] = str(gcloud)
    if not place.is_managed_workspace:
        variables |= _projects_dotenv(place.workspace, {**environment, **variables})
    return variables


def _operators_dotenv(home: Path) -> dict[str, str]:
    for path in (home / ".gemini" / ".env", home / ".env"):
        if path.is_file():
            return load_dotenv(path)
    return {}


def _projects_dotenv(workspace: Path, environment: Environment) -> dict[str, str]:
    """What the `.env` files from WORKSPACE upwards would set, set already.

    Gemini CLI would set these itself, after the launch, and the shim would then take them for its own and
    send them to the target: a key among them too. Those that REMOVED names are given no value.
    """
    variables: dict[str, str] = {}
    for folder in (workspace, *workspace.parents):
        for path in (folder / ".gemini" / ".env", folder / ".env"):
            for name, value in load_dotenv(path).items():
                if name not in environment and name not in variables and "\0" not in value:
                    variables[name] = "" if name in REMOVED else value
    return variables
