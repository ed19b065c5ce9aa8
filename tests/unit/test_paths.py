from __future__ import annotations

from pathlib import Path

import pytest

from reach.paths import Paths


def test_two_homes_have_no_socket_in_common_though_they_share_a_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of one name in both would else be served by the broker, and the target, of the one that is up."""
    for name in ("REACH_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    sockets = set()
    for runtime in (tmp_path, tmp_path / "gone"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        for home in ("one", "other"):
            monkeypatch.setenv("HOME", str(tmp_path / home))
            sockets.add(Paths.from_environment().socket("demo"))
    assert len(sockets) == 4


def test_reach_home_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REACH_HOME", "/srv/r")
    paths = Paths.from_environment()
    assert paths == Paths.below(Path("/srv/r"))
    assert {root.parent for root in (paths.state, paths.data, paths.cache, paths.runtime)} == {Path("/srv/r")}
