"""A throw-away launch: prepared as a real one is, in folders that go away with everything that ran in them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from reach.harness.base import Harness
from reach.harness.launch import PreparedLaunch, prepare_launch
from reach.paths import Paths, ensure_private_dir
from reach.probe.folder import ProbeFolder
from reach.probe.process import HarnessProcess, kill_all_with
from reach.session import Session
from reach.session.launch import launch_folder

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def no_proxies() -> dict[str, str]:
    """The variables by which no proxy is used: a mock on loopback is not found through one.

    They are empty and not removed: a project's `.env` sets what isn't there.
    """
    empty = dict.fromkeys((*PROXY_VARIABLES, *map(str.lower, PROXY_VARIABLES)), "")
    return empty | {"NO_PROXY": "*", "no_proxy": "*"}


class Stage:
    """Prepares one launch; a context manager, at whose end the folders and the launch's record are gone."""

    def __init__(
        self,
        paths: Paths,
        session: Session,
        harness: Harness,
        *,
        binary: Path,
        mock_url: str,
        prompt: str,
        nonce: str,
        extra_env: Mapping[str, str],
        workspace: Path | None = None,
        environment: Mapping[str, str] | None = None,
        version: str | None = None,
    ) -> None:
        """ENVIRONMENT is what the operator would launch from, that of this process if None. VERSION if it is known."""
        self._paths = paths
        self._session = session
        self._folder = ProbeFolder()
        self._root = self._folder.path
        self.launch: PreparedLaunch
        try:
            self.launch = prepare_launch(
                paths,
                session,
                harness,
                workspace=workspace,
                arguments=harness.probe_arguments(prompt),
                environment=self._environment(environment, harness.probe_environment(mock_url)),
                binary=Path(os.path.abspath(binary)),
                extra_env=extra_env,
                nonce=nonce,
                root=self._root,
                is_probe=True,
                version=version,
            )
        except BaseException:
            self._remove_folders()
            raise

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        kill_all_with(self._token)
        shutil.rmtree(launch_folder(self._paths, self._session.name, self.launch.launch_id), ignore_errors=True)
        self._remove_folders()

    def _environment(self, environment: Mapping[str, str] | None, own: Mapping[str, str]) -> dict[str, str]:
        """What the launch starts from, but with no way out and a temporary folder that goes away."""
        temporary = ensure_private_dir(self._root / "tmp")
        base = dict(os.environ if environment is None else environment)
        return base | no_proxies() | {"TMPDIR": str(temporary)} | dict(own)

    def _remove_folders(self) -> None:
        for link in self._paths.home_links.glob(f"{self._session.name}-*"):
            with contextlib.suppress(OSError):
                if Path(os.readlink(link)).is_relative_to(self._root):
                    link.unlink()
        # Also ends a program that was only asked for its version, which has no other mark than TMPDIR.
        self._folder.remove()

    @property
    def _token(self) -> str:
        """What the PATH of everything that this launch starts contains."""
        return str(launch_folder(self._paths, self._session.name, self.launch.launch_id))

    def start(self, argv: Sequence[str] | None = None) -> HarnessProcess:
        """Start the harness, or ARGV in its place."""
        return HarnessProcess(
            argv or self.launch.argv,
            env=self.launch.env,
            cwd=self.launch.cwd,
            token=self._token,
        )

    def argv_without_managed_files(self) -> list[str]:
        """The harness as another home would have it: without the arguments that name files of the managed one."""
        own, home = self.launch.preparation.arguments, self.launch.env["HOME"]
        kept = [argument for argument in own if home not in argument]
        return [self.launch.argv[0], *kept, *self.launch.argv[1 + len(own) :]]
