from __future__ import annotations

from pathlib import Path

import pytest

from reach.errors import ConfigError
from reach.harness.workspace import BOUNDARY_MARKER, prepare_workspace


def test_what_somebody_left_in_the_workspace_is_moved_away_and_said(tmp_path: Path) -> None:
    root = tmp_path / "session"
    workspace, _ = prepare_workspace(root, [b"src"])
    (workspace / "notes.txt").write_text("left")
    (workspace / "src" / "deep.txt").write_text("left too")
    (workspace / "link").symlink_to("/etc")
    (workspace / ".gemini").mkdir()
    (workspace / ".gemini" / "settings.json").write_text('{"tools": {"core": ["read_file"]}}')
    _, moved = prepare_workspace(root, [b"src", b"docs"])
    assert sorted(p.relative_to(workspace).as_posix() for p in workspace.rglob("*")) == [BOUNDARY_MARKER, "docs", "src"]
    kept = {p.name: p for p in (root / "left-behind").rglob("*")}
    assert kept["notes.txt"].read_text() == "left"
    assert kept["deep.txt"].read_text() == "left too"
    assert kept["link"].is_symlink()
    assert (kept[".gemini"] / "settings.json").is_file()
    assert len(moved) == 1
    assert "and 1 more" in moved[0]
    assert str(root / "left-behind") in moved[0]
    assert prepare_workspace(root, [])[1] == []
    assert Path("/etc/passwd").is_file()


def test_things_left_twice_within_a_second_are_both_kept(tmp_path: Path) -> None:
    for text in ("one", "two"):
        workspace, _ = prepare_workspace(tmp_path / "session", [])
        (workspace / "same").write_text(text)
    prepare_workspace(tmp_path / "session", [])
    left = [p.read_text() for p in (tmp_path / "session" / "left-behind").rglob("same*")]
    assert sorted(left) == ["one", "two"]


def test_folders_stay_where_none_are_known(tmp_path: Path) -> None:
    workspace, _ = prepare_workspace(tmp_path / "session", [b"src"])
    prepare_workspace(tmp_path / "session", None)
    assert (workspace / "src").is_dir()
    prepare_workspace(tmp_path / "session", [])
    assert not (workspace / "src").exists()


def test_the_search_for_a_dotenv_ends_above_the_workspace(tmp_path: Path) -> None:
    prepare_workspace(tmp_path / "session", [])
    for path in (tmp_path / "session" / ".env", tmp_path / "session" / ".gemini" / ".env"):
        assert path.read_bytes() == b""


def test_a_link_in_place_of_the_workspace_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "session"
    root.mkdir(mode=0o700)
    (root / "workspace").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="workspace"):
        prepare_workspace(root, [])
