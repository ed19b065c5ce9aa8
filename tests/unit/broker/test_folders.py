from __future__ import annotations

import os
from pathlib import Path

import pytest

from reach.broker.folders import local_folder, target_folder
from reach.errors import SessionError

ODD = [b"sub", b"a/b/c", b"with space", b"qu'ote\"", b"-dash", b"new\nline", b"ends\n", b"\xff\xfe", b"..x"]


@pytest.mark.parametrize("name", ODD, ids=repr)
@pytest.mark.parametrize("root", ["/srv/project", "/", "/srv/with space"])
def test_a_folder_below_the_workspace_is_that_below_the_session_s(name: bytes, root: str) -> None:
    far = target_folder(b"/w/" + name, "/w", root)
    assert far == os.fsencode(root).rstrip(b"/") + b"/" + name
    assert local_folder(far, "/w", root) == b"/w/" + name


def test_the_workspace_itself_is_the_session_s_folder() -> None:
    assert target_folder(b"/w", "/w", "/srv/project") == b"/srv/project"
    assert target_folder(b"/w", "/w", "/") == b"/"
    assert local_folder(b"/srv/project", "/w", "/srv/project") == b"/w"


@pytest.mark.parametrize("cwd", [b"/", b"/elsewhere", b"/workspace", b"/w2/sub", b"/home/me"])
def test_outside_the_workspace_nothing_runs(cwd: bytes) -> None:
    with pytest.raises(SessionError, match="did not run"):
        target_folder(cwd, "/w", "/srv/project")


def test_a_workspace_named_through_a_link_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert target_folder(os.fsencode(tmp_path / "real" / "sub"), str(tmp_path / "link"), "/srv") == b"/srv/sub"


def test_without_a_launch_every_folder_is_the_session_s() -> None:
    assert target_folder(b"/anywhere", None, "/srv/project") == b"/srv/project"


@pytest.mark.parametrize("folder", [b"/etc", b"/srv", b"/srv/projects", b"/srv/project2/x"])
def test_a_folder_outside_the_session_s_has_no_local_stand_in(folder: bytes) -> None:
    assert local_folder(folder, "/w", "/srv/project") == folder
