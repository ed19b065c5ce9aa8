"""A short path to a managed home, without the operator's name in it.

Harnesses tell the model paths below HOME (a temporary folder, the file an instruction came from), and the path of the
state folder usually begins with the operator's own home. The link is not in the session's runtime folder: that one goes
when the session goes down, and a harness that still runs keeps needing its home.
"""

from __future__ import annotations

import time
from pathlib import Path

from reach.paths import Paths, ensure_private_dir
from reach.session.launch import load_launch

_MIN_AGE_S = 3600.0
"""A younger link may be that of a launch that isn't recorded yet."""


def link_home(paths: Paths, session: str, launch_id: str, home: Path) -> Path:
    """Make folder HOME and a link to it for one launch; return the link. Links of launches long gone are removed."""
    ensure_private_dir(home)
    ensure_private_dir(paths.runtime)
    folder = ensure_private_dir(paths.home_links)
    for old in folder.iterdir():
        old_session, _, old_id = old.name.rpartition("-")
        if time.time() - old.lstat().st_mtime > _MIN_AGE_S and load_launch(paths, old_session, old_id) is None:
            old.unlink(missing_ok=True)
    link = folder / f"{session}-{launch_id}"
    link.symlink_to(home, target_is_directory=True)
    return link
