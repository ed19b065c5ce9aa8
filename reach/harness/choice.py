"""Which program of a harness is meant."""

from __future__ import annotations

from pathlib import Path

from reach.errors import ConfigError, HarnessNotFoundError
from reach.harness.base import Environment, Harness
from reach.harness.binary import find_binary
from reach.harness.install import check_version, installed, installed_binary
from reach.harness.registry import get_harness
from reach.paths import Paths


def parse_harness_name(text: str) -> tuple[Harness, str | None]:
    """Read NAME or NAME@VERSION.

    Raises: ConfigError for an unknown harness, or for no version after the @.
    """
    name, at, version = text[1:].partition("@")  # the first character may be the @ of a package's name at npm
    name = text[:1] + name
    if at and not version:
        raise ConfigError(f"{text!r} names no version", fix=f"write {name} or {name}@1.2.3")
    harness = get_harness(name)
    if version:
        check_version(harness, version)
    return harness, version or None


def choose_binary(
    harness: Harness,
    paths: Paths,
    environment: Environment,
    *,
    explicit: Path | None = None,
    version: str | None = None,
) -> Path:
    """EXPLICIT, or the installed VERSION, or the one on PATH, or the newest that reach installed.

    Raises: HarnessNotFoundError; ConfigError when both are named.
    """
    if explicit is not None and version is not None:
        raise ConfigError("both a program and a version are named", fix="leave one out")
    if version is not None:
        return installed_binary(harness, version, paths)
    try:
        return find_binary(harness, environment, explicit)
    except HarnessNotFoundError:
        there = installed(harness, paths)
        if explicit is not None or not there:
            raise
        return there[-1].binary
