from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from reach.errors import HarnessError
from reach.harness.credential_links import link_credentials

NAME = "oauth_creds.json"


@pytest.fixture
def managed(tmp_path: Path) -> Path:
    folder = tmp_path / "managed"
    folder.mkdir()
    return folder


@pytest.fixture
def real(tmp_path: Path) -> Path:
    folder = tmp_path / "operator" / ".gemini"
    folder.mkdir(parents=True)
    return folder


def write_at(path: Path, text: str, mtime_s: int) -> None:
    path.write_text(text)
    os.utime(path, (mtime_s, mtime_s))


def test_a_file_that_does_not_exist_yet_is_made_where_it_belongs(managed: Path, tmp_path: Path) -> None:
    real = tmp_path / "nobody" / ".gemini"
    assert link_credentials(managed, real, [NAME]) == []
    (managed / NAME).write_text("new token")
    assert (real / NAME).read_text() == "new token"


def test_linking_again_changes_nothing(managed: Path, real: Path) -> None:
    (real / NAME).write_text("token")
    for _ in range(2):
        assert link_credentials(managed, real, [NAME]) == []
    assert os.readlink(managed / NAME) == str(real / NAME)
    assert list(real.iterdir()) == [real / NAME]


def test_a_newer_plain_file_becomes_the_real_one_and_the_older_is_kept(managed: Path, real: Path) -> None:
    write_at(real / NAME, "old", 1000)
    write_at(managed / NAME, "new", 2000)
    assert len(link_credentials(managed, real, [NAME])) == 1
    assert (real / NAME).read_text() == (managed / NAME).read_text() == "new"
    backup = real / f"{NAME}.bak"
    assert backup.read_text() == "old"
    assert (managed / NAME).is_symlink()
    for path in (real / NAME, backup):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_older_plain_file_does_not_replace_the_real_one_and_is_kept(managed: Path, real: Path) -> None:
    write_at(real / NAME, "new", 2000)
    write_at(managed / NAME, "old", 1000)
    assert len(link_credentials(managed, real, [NAME])) == 1
    assert (real / NAME).read_text() == (managed / NAME).read_text() == "new"
    assert (real / f"{NAME}.bak").read_text() == "old"


def test_an_equal_plain_file_leaves_no_backup(managed: Path, real: Path) -> None:
    write_at(real / NAME, "same", 1000)
    write_at(managed / NAME, "same", 2000)
    link_credentials(managed, real, [NAME])
    assert (managed / NAME).is_symlink()
    assert list(real.iterdir()) == [real / NAME]


def test_a_plain_file_without_a_real_one_moves_there(managed: Path, tmp_path: Path) -> None:
    real = tmp_path / "nobody" / ".gemini"
    (managed / NAME).write_text("token")
    link_credentials(managed, real, [NAME])
    assert (real / NAME).read_text() == (managed / NAME).read_text() == "token"


def test_a_real_file_that_is_itself_a_link_stays_one(managed: Path, real: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles.json"
    write_at(elsewhere, "old", 1000)
    (real / NAME).symlink_to(elsewhere)
    write_at(managed / NAME, "new", 2000)
    link_credentials(managed, real, [NAME])
    assert (real / NAME).is_symlink()
    assert elsewhere.read_text() == "new"


def test_a_link_to_another_home_is_put_right(managed: Path, real: Path, tmp_path: Path) -> None:
    (managed / NAME).symlink_to(tmp_path / "other.json")
    link_credentials(managed, real, [NAME])
    assert os.readlink(managed / NAME) == str(real / NAME)


def test_a_folder_in_the_way_is_an_error_that_names_it(managed: Path, real: Path) -> None:
    (managed / NAME).mkdir()
    with pytest.raises(HarnessError, match=NAME):
        link_credentials(managed, real, [NAME])
