"""Starting a harness in a session: everything it is started with, and the step into it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from reach.broker.shim_folder import install_shim
from reach.errors import HarnessError
from reach.harness.base import Environment, Harness, Place, Preparation
from reach.harness.binary import read_version
from reach.harness.home_link import link_home
from reach.harness.target_context import TargetContext, fetch_context
from reach.harness.version_managers import link_version_files, version_manager_variables
from reach.harness.workspace import prepare_workspace, taking_turns
from reach.paths import Paths, ensure_private_dir, operator_home
from reach.session import Session
from reach.session.launch import create_launch, launch_folder, new_launch_id

_REMOVED_FROM_ANY_LAUNCH = frozenset({"BASH_ENV", "ENV", "OLDPWD"})
"""A wrapper script's bash would run the file that BASH_ENV names, and such files put folders in front of
PATH; OLDPWD names a folder of the operator's."""


@dataclass(frozen=True)
class PreparedLaunch:
    """What to execute, and what was decided on the way."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    launch_id: str
    version: str | None
    preparation: Preparation
    notes: tuple[str, ...] = ()
    """Lines for the operator."""


def prepare_launch(
    paths: Paths,
    session: Session,
    harness: Harness,
    *,
    workspace: Path | None,
    arguments: Sequence[str],
    environment: Environment,
    binary: Path,
    extra_env: Mapping[str, str] | None = None,
    nonce: str | None = None,
    context: TargetContext | None = None,
    root: Path | None = None,
    is_probe: bool = False,
    local_hooks: bool = False,
    version: str | None = None,
) -> PreparedLaunch:
    """Write the managed home and workspace, record the launch, install its shim. Nothing is started.

    WORKSPACE is a local folder to use in place of the managed one. EXTRA_ENV is set in every remote command
    of this launch and nowhere on this machine. CONTEXT is the target's own account of itself, None for none.
    ROOT holds the home and the workspace, the session's state folder if None. A probe carries nothing of the
    operator's over. VERSION is that of BINARY where it is known already: asking may start the whole program.

    Raises: ConfigError for an argument that is refused; HarnessError.
    """
    if not is_probe:
        harness.check_arguments(arguments)
    root = ensure_private_dir(root or paths.session_state(session.name))
    launch_id = new_launch_id()
    version = version or read_version(harness, binary, environment)
    with taking_turns(root):
        folder, notes = _working_folder(root, workspace, context)
        place = Place(
            **_what_is_known(session, context),
            home=link_home(paths, session.name, launch_id, root / "home"),
            operator_home=None if is_probe else _operators_harness_home(paths, environment),
            workspace=folder,
            is_managed_workspace=workspace is None,
            nonce=nonce,
        )
        link_version_files(place.home, operator_home())
        preparation = harness.prepare(place, version, environment)
    env = launch_environment(environment, preparation, launch_folder(paths, session.name, launch_id) / "bin", folder)
    _record(
        paths,
        session.name,
        env,
        harness=harness.name,
        workspace=folder,
        extra_env=extra_env,
        keeps_folders=workspace is None and context is not None,
        local_hooks=local_hooks,
        launch_id=launch_id,
    )
    return PreparedLaunch(
        argv=[str(binary), *preparation.arguments, *arguments],
        env=env,
        cwd=folder,
        launch_id=launch_id,
        version=version,
        preparation=preparation,
        notes=(*notes, *preparation.notes),
    )


def _what_is_known(session: Session, context: TargetContext | None) -> dict[str, Any]:
    """The part of a Place that the target and the session's file tell."""
    context = context or TargetContext()
    return {
        "session": session.name,
        "target": session.target,
        "hostname": session.hostname,
        "folder": session.folder,
        "folders": context.folders,
        "instructions": context.instructions,
    }


def _record(paths: Paths, session: str, env: Mapping[str, str], *, launch_id: str, **what: Any) -> None:
    """Record the launch and install its shim, which must be where ENV's PATH begins. WHAT as for create_launch."""
    environment = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    create_launch(paths, session, environment=environment, launch_id=launch_id, **what)
    shim_folder = install_shim(paths, session, launch_id)
    if env["PATH"].split(os.pathsep)[0] != str(shim_folder):
        raise HarnessError(f"the shim is in {shim_folder}, not where the launch's PATH begins")


def _working_folder(root: Path, workspace: Path | None, context: TargetContext | None) -> tuple[Path, list[str]]:
    if workspace is None:
        return prepare_workspace(root, context.folders if context else None)
    try:
        folder = workspace.resolve(strict=True)
    except OSError as error:
        raise HarnessError(f"the workspace {workspace}: {error.strerror}", fix="give --workspace another") from None
    if not folder.is_dir():
        raise HarnessError(f"the workspace {workspace} is no folder", fix="give --workspace another")
    return folder, []


def _operators_harness_home(paths: Paths, environment: Environment) -> Path:
    """Where the harness would look without reach: GEMINI_CLI_HOME where the operator, not reach, has set
    it."""
    own = Path(environment.get("GEMINI_CLI_HOME", ""))
    is_managed = any(own.is_relative_to(root) for root in (paths.state, paths.runtime))
    return own if own.is_absolute() and not is_managed else operator_home()


def launch_environment(
    environment: Environment, preparation: Preparation, shim_folder: Path, folder: Path
) -> dict[str, str]:
    """The harness's whole environment: the operator's, as changed by PREPARATION, the shim first on PATH."""
    removed = preparation.remove_environment | _REMOVED_FROM_ANY_LAUNCH
    env = {name: value for name, value in environment.items() if name not in removed}
    env |= version_manager_variables(env, operator_home())
    env |= preparation.set_environment
    env["PATH"] = os.pathsep.join([str(shim_folder), *_path_entries(environment.get("PATH", os.defpath))])
    env["PWD"] = str(folder)
    return env


def _path_entries(path: str) -> list[str]:
    """The entries of PATH as they are, but absolute: the harness's working folder is not the operator's."""
    return [os.path.abspath(entry or ".") for entry in path.split(os.pathsep)]


def launch(
    paths: Paths,
    session: Session,
    harness: Harness,
    *,
    workspace: Path | None,
    arguments: Sequence[str],
    environment: Environment,
    binary: Path,
    on_note: Callable[[str], None],
    guard: Callable[[PreparedLaunch], None],
    local_hooks: bool = False,
) -> NoReturn:
    """Ask the target what the model should know of it, prepare, and become the harness. The broker must be up.

    GUARD raises where this harness, so prepared, must not be started.

    Raises: ConfigError, HarnessError, BrokerUnavailableError, and what GUARD raises.
    """
    harness.check_arguments(arguments)
    context = fetch_context(paths, session, harness) if workspace is None else None
    prepared = prepare_launch(
        paths,
        session,
        harness,
        workspace=workspace,
        arguments=arguments,
        environment=environment,
        binary=binary,
        context=context,
        local_hooks=local_hooks,
    )
    for note in (*(context.notes if context else ()), *prepared.notes):
        on_note(note)
    guard(prepared)
    execute(prepared)


def execute(prepared: PreparedLaunch) -> NoReturn:
    """Become the harness.

    Raises: HarnessError when it can't be started.
    """
    try:
        os.chdir(prepared.cwd)
        os.execve(prepared.argv[0], prepared.argv, prepared.env)
    except OSError as error:
        raise HarnessError(
            f"{prepared.argv[0]} can't be started: {error.strerror}", fix="give --binary another program"
        ) from None
