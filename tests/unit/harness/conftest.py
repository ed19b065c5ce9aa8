from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reach.harness.base import Place
from reach.paths import Paths, ensure_private_dir
from reach.session import Session, SessionStore


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    root = ensure_private_dir(tmp_path / "reach")
    for name in ("state", "data", "cache", "run"):
        ensure_private_dir(root / name)
    return Paths(root / "state", root / "data", root / "cache", root / "run")


@pytest.fixture
def session(paths: Paths) -> Session:
    ensure_private_dir(paths.state / "sessions")
    made = Session(name="box", target="box:app", created=datetime.now(UTC), folder="/srv/app", hostname="far")
    SessionStore(paths).save(made)
    return made


@pytest.fixture
def make_place(tmp_path: Path) -> Callable[..., Place]:
    """A Place whose folders exist; keywords replace its parts."""

    def make(**parts: Any) -> Place:
        defaults: dict[str, Any] = {
            "session": "box",
            "target": "box:app",
            "hostname": "far",
            "folder": "/srv/app",
            "home": tmp_path / "home",
            "operator_home": tmp_path / "operator",
            "workspace": tmp_path / "workspace",
        }
        place = Place(**(defaults | parts))
        for folder in (place.home, place.workspace):
            folder.mkdir(exist_ok=True, mode=0o700)
        if place.operator_home:
            (place.operator_home / ".gemini").mkdir(exist_ok=True, parents=True)
        return place

    return make


@pytest.fixture
def make_program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write an executable shell script NAME (a path below the test's folder) with the given text."""

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    return make
