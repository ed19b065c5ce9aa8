"""Which of a command's environment variables go to the target: those that the harness set or changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from reach.session.launch import Launch

LOCAL_ONLY = frozenset(
    b"_ HOME HOSTNAME LOGNAME MAIL OLDPWD PATH PWD SHELL SHLVL SSH_AUTH_SOCK TEMP TMP TMPDIR USER "
    b"BASH_ENV CLI_TITLE ENV LD_LIBRARY_PATH LD_PRELOAD NODE_OPTIONS NODE_PATH PYTHONPATH".split()
)
"""Names whose values mean something on this machine alone."""
LOCAL_PREFIXES = (b"REACH_", b"XDG_", b"SSH_")
_SET_TO_NOTHING = frozenset({b"SSH_ASKPASS"})
"""A harness empties these to keep prompts away; an empty value tells nothing of this machine."""

HOOK_MARKS = (b"GEMINI_PROJECT_DIR", b"GEMINI_SESSION_ID")
"""Gemini CLI sets both for a hook's command, and neither for the model's."""


def forwarded_environment(
    environment: Mapping[bytes, bytes], launch: Launch | None, local_paths: Iterable[str]
) -> dict[bytes, bytes]:
    """What of ENVIRONMENT travels. Nothing does outside a launch: there is no record to compare with.

    A value that names one of LOCAL_PATHS, or the workspace, stays here, whoever set it.
    """
    if launch is None:
        return {}
    local = _names_one_of([os.fsencode(path) for path in (*local_paths, launch.workspace) if len(path) > 1])
    return {
        name: value
        for name, value in environment.items()
        if _may_travel(name, value)
        and not launch.is_operators(name, value)
        and not (local and local.search(value))
    } | {name.encode(): value.encode() for name, value in launch.extra_env.items()}


def _names_one_of(paths: list[bytes]) -> re.Pattern[bytes] | None:
    """Finds one of PATHS, or what lies below it, and not a longer name that begins or ends alike."""
    alternatives = b"|".join(re.escape(path.rstrip(b"/")) for path in paths)
    return re.compile(rb"(?<![\w.-])(?:" + alternatives + rb")(?![\w-]|\.\w)") if paths else None


def _may_travel(name: bytes, value: bytes) -> bool:
    if name in _SET_TO_NOTHING:
        return not value
    return name not in LOCAL_ONLY and not name.startswith(LOCAL_PREFIXES)


def is_hook(environment: Mapping[bytes, bytes]) -> bool:
    """Whether the harness runs a command of its own settings, and not one of the model's."""
    return all(name in environment for name in HOOK_MARKS)
