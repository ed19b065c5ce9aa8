"""Accounts whose home, start-up files or temporary folder are not what one would expect."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reach.errors import ReachError
from support.accounts import Account
from support.session import ReachSession
from support.sshd import Sshd
from support.transports import TRANSPORTS
from support.wrappers import WRAPPERS

pytestmark = [pytest.mark.sshd, pytest.mark.root]

BOTH = pytest.mark.parametrize("transport", TRANSPORTS)
TEMPORARY = {
    "read-only": "mount -t tmpfs -o ro none /tmp",
    "full": "mount -t tmpfs -o size=4k,mode=1777 none /tmp && { cat /dev/zero >/tmp/full || :; } 2>/dev/null",
}


@pytest.fixture
def outside_tmp() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="reach-sshd-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@BOTH
@pytest.mark.parametrize("kind", TEMPORARY)
def test_a_temporary_folder_that_takes_nothing_costs_only_commands_that_need_it(
    make_session: Callable[..., ReachSession], outside_tmp: Path, kind: str, transport: str
) -> None:
    by = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", f'{TEMPORARY[kind]} && exec "$@"', "hide"]
    with Account() as account, Sshd(user=account.name, folder=outside_tmp, by=by) as server:
        session = make_session(server, transport=transport)
        assert session.run("touch /tmp/x && echo y >/tmp/x").returncode
        assert session.run("cat; echo done", input=b"in\n").stdout == b"in\ndone\n"
        shim = session.launch(environment={"TMPDIR": str(session.home)})
        for wrapper in WRAPPERS:
            side = wrapper.prepare(session.home)
            done = session.run(wrapper.wrap(b"echo hi; sleep 0.2 &", side), shim=shim)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n", b""), wrapper.name
            assert side is None or side.read_text().strip(), wrapper.name
        too_long = session.run(f"# {'x' * 125_000}\necho ran")
        assert (too_long.returncode, too_long.stdout) == (125, b"")
        assert b"did not run" in too_long.stderr


@BOTH
def test_a_home_that_is_missing_costs_nothing_but_itself(
    make_session: Callable[..., ReachSession], transport: str
) -> None:
    with Account() as account, Sshd(user=account.name) as server:
        shutil.rmtree(account.home)
        session = make_session(server, transport=transport)
        done = session.run("pwd; [ -d ~ ] || echo none; cat", input=b"in\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"/\nnone\nin\n", b"")


@BOTH
@pytest.mark.parametrize("line", ["exit 3", "exec sh -c 'exit 3'", "exec sleep 0"])
def test_a_profile_that_ends_the_shell_costs_its_environment_alone(
    make_session: Callable[..., ReachSession], line: str, transport: str
) -> None:
    with Account(files={".profile": f"export PATH=/opt/there:$PATH\n{line}\n"}) as account:
        with Sshd(user=account.name) as server:
            session = make_session(server, transport=transport)
            assert session.facts["login_shell_failed"]
            assert session.run("cat; echo done", input=b"in\n").stdout == b"in\ndone\n"


@BOTH
@pytest.mark.parametrize("line", ["exit 3", "exec sh -c 'exit 3'"])
def test_start_up_files_that_end_every_shell_are_told_of(
    make_session: Callable[..., ReachSession], line: str, transport: str
) -> None:
    """`ssh HOST COMMAND` runs nothing there either."""
    with Account(files={".bashrc": f"echo not today\n{line}\n"}) as account, Sshd(user=account.name) as server:
        assert server.run("echo ran").stdout == b"not today\n"
        with pytest.raises(ReachError, match="ended at once, saying 'not today'"):
            make_session(server, transport=transport)
