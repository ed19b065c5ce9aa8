from __future__ import annotations

import os
from pathlib import Path

from reach.harness.home_link import link_home
from reach.paths import Paths
from reach.session.launch import create_launch


def test_links_of_launches_long_gone_are_removed_and_no_others(paths: Paths, tmp_path: Path) -> None:
    home = tmp_path / "home"
    live = create_launch(paths, "box", harness="gemini", workspace=tmp_path, environment={})
    long_gone = link_home(paths, "box", "aaaa", home)
    still_there = link_home(paths, "box", live.id, home)
    young = link_home(paths, "box", "bbbb", home)
    for link in (long_gone, still_there):
        os.utime(link, (1000, 1000), follow_symlinks=False)
    newest = link_home(paths, "other-box", "cccc", home)
    assert sorted(newest.parent.iterdir()) == sorted([still_there, young, newest])
    assert newest.resolve() == home
