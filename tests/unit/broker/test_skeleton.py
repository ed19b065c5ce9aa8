from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.broker.skeleton import (
    MAX_DEPTH,
    MAX_FOLDERS,
    MAX_LISTING_BYTES,
    add_folders,
    build_skeleton,
    listing_command,
    parse_listing,
)

ODD_NAMES = [b"a b", b"new\nline", b"-rf", b"'q\"", b"\xff\xfe", b"$(x)", b"*", b"\\", b"{}", b"#", b"~"]


def folders_below(root: Path) -> set[bytes]:
    top = os.fsencode(root)
    return {
        os.path.relpath(os.path.join(folder, name), top)
        for folder, names, _ in os.walk(top)
        for name in names
        if not os.path.islink(os.path.join(folder, name))
    }


def list_folders(root: Path, shell: str = "sh", user: int | None = None) -> list[bytes]:
    done = subprocess.run([shell, "-c", listing_command()], cwd=root, capture_output=True, check=True, user=user)
    assert done.stderr == b""
    return parse_listing(done.stdout)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh"])
def test_a_targets_folders_are_the_same_here(tmp_path: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    source, workspace = tmp_path / "source", tmp_path / "workspace"
    workspace.mkdir()
    for name in ODD_NAMES:
        os.makedirs(os.path.join(os.fsencode(source), name, b"inner", name))
    (source / "file").write_text("x")
    build_skeleton(workspace, list_folders(source, shell))
    assert folders_below(workspace) == folders_below(source)
    assert not any(path.is_file() for path in workspace.rglob("*"))


def test_an_empty_folder_lists_nothing(tmp_path: Path) -> None:
    assert list_folders(tmp_path) == []


def test_loops_and_links_to_folders_end(tmp_path: Path) -> None:
    (tmp_path / "releases" / "3").mkdir(parents=True)
    (tmp_path / "current").symlink_to("releases/3")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "file").write_text("")
    (tmp_path / "to-file").symlink_to("file")
    assert set(list_folders(tmp_path)) == {b"releases", b"releases/3", b"current", b"loop"}


def test_full_folders_are_passed_over(tmp_path: Path) -> None:
    for name in (".git/objects", "node_modules/x", "src/__pycache__", ".venv/lib", ".gemini/x", "src/main"):
        (tmp_path / name).mkdir(parents=True)
    assert set(list_folders(tmp_path)) == {b"src", b"src/main"}


def test_the_listing_is_bounded_in_depth_and_takes_the_shallow_first(tmp_path: Path) -> None:
    (tmp_path / "/".join("abcdefgh")).mkdir(parents=True)
    (tmp_path / "z").mkdir()
    found = list_folders(tmp_path)
    assert set(found[:2]) == {b"a", b"z"}
    assert max(entry.count(b"/") for entry in found) == MAX_DEPTH - 1


def test_an_unreadable_folder_is_listed_and_what_is_below_is_not() -> None:
    nobody = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None  # root can read everything
    with tempfile.TemporaryDirectory(prefix="reach-folders-") as name:  # pytest's own are closed to others
        root = Path(name)
        root.chmod(0o755)
        (root / "closed" / "inner").mkdir(parents=True)
        (root / "open").mkdir()
        (root / "closed").chmod(0)
        try:
            assert set(list_folders(root, user=nobody)) == {b"closed", b"open"}
        finally:
            (root / "closed").chmod(0o700)


@pytest.mark.parametrize(
    ("output", "entries"),
    [
        (b"", []),
        (b"./a\0./a/b\0", [b"a", b"a/b"]),
        (b"./a\0./cut-of", [b"a"]),
        (b"/etc\0//x\0./\0.\0..\0./../x\0a/../../x\0a//b\0", []),
        (b"./a\0./a\0", [b"a"]),
        (b"./" + b"n" * 256 + b"\0", []),
        (b"./" + b"/".join([b"d"] * 7) + b"\0", []),
        (b"./" + b"/".join([b"n" * 255] * 6) + b"\0", [b"/".join([b"n" * 255] * 6)]),
        (b"\0\0\0", []),
    ],
)
def test_only_safe_entries_are_taken(output: bytes, entries: list[bytes]) -> None:
    assert parse_listing(output) == entries


def test_a_listing_without_end_is_cut(tmp_path: Path) -> None:
    assert len(parse_listing(b"".join(b"./%d\0" % n for n in range(MAX_FOLDERS * 3)))) == MAX_FOLDERS
    assert str(MAX_LISTING_BYTES) in listing_command()


@given(st.lists(st.binary(max_size=40)))
def test_no_listing_leaves_the_workspace(tmp_path_factory: pytest.TempPathFactory, entries: list[bytes]) -> None:
    root = tmp_path_factory.mktemp("any")
    workspace = root / "workspace"
    workspace.mkdir()
    build_skeleton(workspace, parse_listing(b"\0".join(entries) + b"\0"))
    assert list(root.iterdir()) == [workspace]


@pytest.mark.parametrize("entry", [b"..", b"../x", b"a/../../x", b"/tmp/reach-skeleton-x", b"", b"a\0b"])
def test_the_builder_itself_refuses_what_leaves_the_workspace(tmp_path: Path, entry: bytes) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    assert build_skeleton(workspace, [entry]) == 0
    assert [path.name for path in tmp_path.rglob("*")] == ["workspace"]
    assert not os.path.exists("/tmp/reach-skeleton-x")


def test_a_link_in_the_workspace_is_not_followed(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "a").symlink_to(outside)
    build_skeleton(workspace, [b"a/b", b"c"])
    assert list(outside.iterdir()) == []
    assert (workspace / "c").is_dir()


def test_folders_that_went_away_go_away_unless_something_is_kept_in_them(tmp_path: Path) -> None:
    build_skeleton(tmp_path, [b"a/b/c", b"d", b"e/f"])
    (tmp_path / "e" / "f" / "note").write_text("x")
    assert build_skeleton(tmp_path, [b"a/b", b"new"]) == 3
    assert folders_below(tmp_path) == {b"a", b"a/b", b"new", b"e", b"e/f"}


def test_a_parent_that_the_listing_leaves_out_is_made(tmp_path: Path) -> None:
    assert build_skeleton(tmp_path, [b"a/b/c"]) == 3
    assert folders_below(tmp_path) == {b"a", b"a/b", b"a/b/c"}


def test_folders_that_were_added_are_there_and_others_stay(tmp_path: Path) -> None:
    build_skeleton(tmp_path, [b"a/b", b"gone"])
    add_folders(tmp_path, [b"a", b"a/b", b"a/new", b"a/new/er", b"../out", b"/etc/out"])
    assert folders_below(tmp_path) == {b"a", b"a/b", b"gone", b"a/new", b"a/new/er"}
    assert not (tmp_path.parent / "out").exists()


def test_folders_that_are_gone_make_room_where_there_are_many(tmp_path: Path) -> None:
    build_skeleton(tmp_path, [b"old%d" % n for n in range(MAX_FOLDERS)])
    listing = [b"new%d" % n for n in range(3)] + [b"old%d" % n for n in range(10)]
    add_folders(tmp_path, listing)
    assert folders_below(tmp_path) == set(listing)


def test_a_workspace_that_was_taken_away_is_not_made_again(tmp_path: Path) -> None:
    add_folders(tmp_path / "workspace", [b"a"])
    assert list(tmp_path.iterdir()) == []


def test_added_folders_do_not_follow_a_link_out_of_the_workspace(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "a").symlink_to(outside)
    add_folders(workspace, [b"a", b"a/b"])
    assert list(outside.iterdir()) == []
