from __future__ import annotations

from pathlib import Path

import pytest

from reach.errors import ConnectionLostError
from reach.ssh.openssh_shared import SharedMaster


def test_no_channel_is_opened_on_a_master_whose_proxy_is_about_to_go(tmp_path: Path) -> None:
    master = SharedMaster(tmp_path / "nobody")
    master.settle()
    with pytest.raises(ConnectionLostError, match="while a channel was opened"):
        with master.room(lambda: 0, lambda timeout_s: True):
            pytest.fail("a channel could be opened")
