from __future__ import annotations

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from reach.errors import ConfigError, SessionExistsError, SessionNotFoundError, SessionRecordError
from reach.paths import MAX_SOCKET_PATH_BYTES, Paths, ensure_private_dir
from reach.session import SessionStore
from reach.target import parse_target


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("REACH_HOME", str(tmp_path / "reach"))
    return Paths.from_environment()


@pytest.fixture
def store(paths: Paths) -> SessionStore:
    return SessionStore(paths)


def test_a_target_keeps_its_session_and_another_of_that_name_gets_a_number(store: SessionStore) -> None:
    first = store.bind(parse_target("box:/a"))
    assert store.bind(parse_target("box:/a")) == first
    second = store.bind(parse_target("box:/b"))
    assert (first.name, second.name) == ("box", "box-2")
    assert store.load("box").target == "box:/a"
    assert store.bind(parse_target("box:/b")).name == "box-2"


@pytest.mark.parametrize("other", ["box:proj/", "box:./proj", "ssh://box/proj"])
def test_the_same_folder_in_another_spelling_is_the_same_session(store: SessionStore, other: str) -> None:
    first = store.bind(parse_target("box:proj"))
    store.save(replace(first, target="box:proj/"))  # as it was kept before there was one spelling
    assert store.bind(parse_target(other)).name == first.name
    assert store.bind(parse_target(other), first.name).name == first.name


def test_a_session_that_is_removed_leaves_nothing_in_the_runtime_folder(paths: Paths, store: SessionStore) -> None:
    for name in ("box", "box-a"):
        store.bind(parse_target(name))
        ensure_private_dir(paths.session_runtime(name))
        (ensure_private_dir(paths.home_links) / f"{name}-0a1b2c3d").symlink_to(paths.session_state(name))
    store.remove("box")
    assert sorted(path.name for path in paths.runtime.iterdir()) == [".homes", "box-a"]
    assert [link.name for link in paths.home_links.iterdir()] == ["box-a-0a1b2c3d"]


def test_targets_that_are_bound_at_once_each_get_a_session_of_their_own(paths: Paths) -> None:
    spellings = [f"box:/{number}" for number in range(16)] * 2
    begin = threading.Barrier(len(spellings))

    def bind(spelling: str) -> tuple[str, str, bool]:
        begin.wait()
        session, is_new = SessionStore(paths).find_or_make(parse_target(spelling))
        return session.name, spelling, is_new

    with ThreadPoolExecutor(len(spellings)) as pool:
        bound = list(pool.map(bind, spellings))
    assert {name for name, _, _ in bound} == set(SessionStore(paths).names())
    assert all(SessionStore(paths).load(name).target == spelling for name, spelling, _ in bound)
    assert sum(is_new for _, _, is_new in bound) == 16


def test_a_name_held_by_another_target_is_never_taken(store: SessionStore) -> None:
    store.bind(parse_target("box"), "work")
    with pytest.raises(SessionExistsError, match="work"):
        store.bind(parse_target("other"), "work")
    assert store.load("work").target == "box"


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "x" * 41, "a b", "\x1b[31m"])
def test_a_session_name_that_is_none_is_refused(store: SessionStore, name: str) -> None:
    with pytest.raises(ConfigError, match="40 letters"):
        store.bind(parse_target("box"), name)


@pytest.mark.parametrize("name", ["..", "../..", "", "a/../b"])
def test_a_path_is_never_loaded_as_a_session(store: SessionStore, name: str) -> None:
    with pytest.raises(SessionNotFoundError):
        store.load(name)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ("", "damaged"),
        ('{"schema_version": 1, "name": "box"}', "damaged"),
        ('{"schema_version": 99, "name": "box", "target": "box", "new_field": 1}', "newer reach"),
    ],
    ids=["cut", "a-list", "empty", "fields-missing", "newer"],
)
def test_a_damaged_or_newer_file_is_refused_in_one_line_and_left_alone(
    paths: Paths, store: SessionStore, content: str, said: str
) -> None:
    store.bind(parse_target("box"))
    path = paths.session_state("box") / "session.json"
    path.write_text(content)
    with pytest.raises(SessionRecordError, match=said) as caught:
        store.load("box")
    assert "\n" not in str(caught.value)
    assert path.read_text() == content
    with pytest.raises(SessionRecordError):
        store.bind(parse_target("box"))


def test_a_renamed_file_is_not_taken_for_another_session(paths: Paths, store: SessionStore) -> None:
    store.bind(parse_target("box"))
    os.rename(paths.session_state("box"), paths.session_state("bax"))
    with pytest.raises(SessionRecordError):
        store.load("bax")


def test_files_are_0600_and_folders_0700_whatever_the_umask(paths: Paths, store: SessionStore) -> None:
    before = os.umask(0)
    try:
        store.bind(parse_target("box"))
    finally:
        os.umask(before)
    folder = paths.session_state("box")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "session.json").stat().st_mode) == 0o600
    assert json.loads((folder / "session.json").read_text())["schema_version"] == 1


def test_removing_a_damaged_session_works(paths: Paths, store: SessionStore) -> None:
    store.bind(parse_target("box"))
    (paths.session_state("box") / "session.json").write_text("{")
    store.remove("box")
    assert store.names() == []
    with pytest.raises(SessionNotFoundError):
        store.remove("box")


def test_a_long_reach_home_still_gives_a_socket_path_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACH_HOME", "/tmp/" + "long/" * 40)
    paths = Paths.from_environment()
    assert len(os.fsencode(paths.socket("n" * 40))) <= MAX_SOCKET_PATH_BYTES
    assert str(paths.state).startswith("/tmp/long")


def test_a_relative_reach_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACH_HOME", "here")
    with pytest.raises(ConfigError, match="REACH_HOME"):
        Paths.from_environment()


def test_a_private_folder_is_never_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError):
        ensure_private_dir(tmp_path / "link")


def test_an_open_folder_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    ensure_private_dir(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_colon_in_a_folder_is_refused_since_path_would_be_split_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACH_HOME", "/tmp/with:colon")
    with pytest.raises(ConfigError, match="colon"):
        Paths.from_environment()


def test_a_damaged_numbered_variant_is_passed_over(paths: Paths, store: SessionStore) -> None:
    store.bind(parse_target("box:/a"))
    store.bind(parse_target("box:/b"))
    (paths.session_state("box-2") / "session.json").write_text("{")
    assert store.bind(parse_target("box:/c")).name == "box-3"


def test_a_folder_that_can_not_be_made_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match="can't be made"):
        ensure_private_dir(Path("/proc/1/reach"))
