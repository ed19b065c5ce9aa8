"""Programs that pick a version of another one: they look below HOME, and a managed HOME isn't theirs."""

from __future__ import annotations

from pathlib import Path

from reach.harness.base import Environment

_FOLDERS = {
    "ASDF_DATA_DIR": ".asdf",
    "FNM_DIR": ".local/share/fnm",
    "MISE_CONFIG_DIR": ".config/mise",
    "MISE_DATA_DIR": ".local/share/mise",
    "NODENV_ROOT": ".nodenv",
    "NVM_DIR": ".nvm",
    "PYENV_ROOT": ".pyenv",
    "VOLTA_HOME": ".volta",
}
"""Variable → the folder below HOME that is meant where it isn't set."""

VERSION_FILES = (".tool-versions", ".asdfrc", ".node-version", ".nvmrc", ".python-version")
"""Files in HOME that such programs read."""


def version_manager_variables(environment: Environment, home: Path) -> dict[str, str]:
    """Name the operator's own folders for every manager that is found in HOME and not named in
    ENVIRONMENT."""
    return {
        name: str(home / folder)
        for name, folder in _FOLDERS.items()
        if name not in environment and (home / folder).is_dir()
    }


def link_version_files(managed: Path, home: Path) -> None:
    """Link the operator's version files into the managed HOME."""
    for name in VERSION_FILES:
        link = managed / name
        if link.is_symlink() or not link.exists():
            link.unlink(missing_ok=True)
            if (home / name).is_file():
                link.symlink_to(home / name)
