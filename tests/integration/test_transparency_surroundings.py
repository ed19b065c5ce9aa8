"""Where a command runs and what it finds there: folder, environment, shell, size."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reach.errors import ReachError
from reach.wire.frames import read_frame
from shim import client
from support.accounts import Account
from support.session import ReachSession, quiet_sshd
from support.sshd import Sshd

pytestmark = pytest.mark.sshd

ODD_NAMES = [b"plain", b"with space", b"qu'o\"te", b"new\nline", b"ends\n", b"-dash", b"--", b"$x `y` *", b"\xff\xfe",
             b"\xe6\x97\xa5\xe6\x9c\xac", b"back\\slash", b"~", b"a/b/c", b"\x01\x1b[31m", b"#hash"]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES, ids=repr)
def test_a_command_runs_in_the_folder_of_that_name(session: ReachSession, name: bytes) -> None:
    shim = session.launch()
    far = os.fsencode(session.facts["folder"]) + b"/odd/" + name
    near = os.fsencode(shim.workspace) + b"/odd/" + name
    os.makedirs(far, exist_ok=True)
    os.makedirs(near, exist_ok=True)
    done = session.run("printf '%s\\0' \"$PWD\"; pwd -P; touch here", shim=shim, cwd=near)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == far + b"\0" + far + b"\n"
    assert os.path.exists(far + b"/here")


@pytest.mark.parametrize("kind", ["missing", "file", "dangling"])
def test_a_folder_that_is_not_there_is_named_and_nothing_runs(session: ReachSession, kind: str, tmp_path: Path) -> None:
    shim = session.launch()
    far, near = Path(session.facts["folder"]) / f"a {kind}\nfolder", shim.workspace / f"a {kind}\nfolder"
    near.mkdir(exist_ok=True)
    if kind == "file":
        far.write_text("")
    elif kind == "dangling":
        far.symlink_to("/nonexistent")
    witness = tmp_path / "witness"
    done = session.run(f"touch {witness}", shim=shim, cwd=near)
    assert (done.returncode, done.stdout, witness.exists()) == (125, b"", False)
    [line] = done.stderr.decode().splitlines()
    assert f"a {kind}\\nfolder" in line
    assert "did not run" in line
    assert ("Not a directory" in line) == (kind == "file")


def test_a_folder_that_goes_away_between_two_calls_is_an_error(session: ReachSession) -> None:
    shim = session.launch()
    far, near = Path(session.facts["folder"]) / "goes", shim.workspace / "goes"
    far.mkdir()
    near.mkdir()
    assert session.run("pwd", shim=shim, cwd=near).stdout == f"{far}\n".encode()
    far.rmdir()
    assert session.run("pwd", shim=shim, cwd=near).returncode == 125


def test_outside_the_workspace_nothing_runs(session: ReachSession) -> None:
    shim = session.launch()
    done = session.run("pwd", shim=shim, cwd=Path("/"))
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"outside the workspace" in done.stderr


ADDED = {
    b"GEMINI_CLI": b"1",
    b"TWO_LINES": b"a\nb\n",
    b"QUOTES": b"'\"\\$x`y`!",
    b"EMPTY": b"",
    b"LATIN": b"caf\xe9 \xff",
    b"SPACES": b"  a  b  ",
    b"EQUALS": b"a=b=c",
    b"dotted.name": b"dot",
    b"DISPLAY": b"",
    b"IFS": b":",
    b"PS4": b"+",
    b"SECONDS": b"5",
    b"RANDOM": b"7",
    b"TMOUT": b"60",
    b"GLOBIGNORE": b"*",
    b"POSIXLY_CORRECT": b"",
    b"BIG": b"x" * 100_000,
    b"BASH_FUNC_greet%%": b"() {  echo \"hello $1\"\n}",
    b"BASH_FUNC_cd%%": b"() {  builtin cd \"$@\" && echo moved\n}",
}


def test_the_environment_is_the_target_s_and_what_the_harness_set(session: ReachSession) -> None:
    operator = {"EDITOR": "vi", "AWS_SECRET_ACCESS_KEY": "s3cret", "LANG": "C.UTF-8", "PAGER": "less"}
    shim = session.launch(environment=operator)
    env = {os.fsencode(k): os.fsencode(v) for k, v in shim.environment.items()}
    dump = f'"{sys.executable}" -c {_DUMP}'
    base = _entries(session.run(dump, env={"PATH": "/usr/bin:/bin"}).stdout)
    seen = _entries(session.run(dump, shim=shim, env={**env, b"PAGER": b"cat", **ADDED}).stdout)
    # bash itself drops or computes some of them, on the target as anywhere
    here = subprocess.run(
        ["bash", "-c", dump], env={**base, b"PAGER": b"cat", **ADDED}, capture_output=True, cwd=session.facts["folder"]
    )
    assert seen == _entries(here.stdout)
    assert {seen[name] for name in (b"TWO_LINES", b"QUOTES", b"LATIN", b"EMPTY")} == {
        ADDED[name] for name in (b"TWO_LINES", b"QUOTES", b"LATIN", b"EMPTY")
    }
    assert b"s3cret" not in base.values()
    assert not {b"EDITOR", b"AWS_SECRET_ACCESS_KEY"} & set(seen)


_DUMP = "\"import os; [os.write(1, k + b'=' + v + b'\\\\0') for k, v in os.environb.items() if k != b'LC_CTYPE']\""


def _entries(dump: bytes) -> dict[bytes, bytes]:
    entries = dict(entry.split(b"=", 1) for entry in dump.split(b"\0") if entry)
    return {name: value for name, value in entries.items() if name not in (b"_", b"SHLVL")}


def test_a_variable_that_hides_bash_from_a_shell_does_not_keep_the_command_from_it(session: ReachSession) -> None:
    shim = session.launch()
    done = session.run("echo $EXECIGNORE", shim=shim, env={**shim.environment, "EXECIGNORE": "*bash"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"*bash\n", b"")


@pytest.mark.parametrize("padding", [0, 125_000], ids=["short", "long"])
def test_exported_functions_can_be_called(session: ReachSession, padding: int) -> None:
    shim = session.launch()
    env = {**{os.fsencode(k): os.fsencode(v) for k, v in shim.environment.items()}, **ADDED}
    done = session.run(f"# {'x' * padding}\ngreet you; cd /; pwd", shim=shim, env=env)
    assert (done.stdout, done.stderr) == (b"hello you\nmoved\n/\n", b"")


def test_a_proof_of_the_launch_is_in_the_remote_environment_alone(session: ReachSession) -> None:
    shim = session.launch(extra_env={"REACH_PROOF": "one-time value"})
    assert session.run("echo $REACH_PROOF", shim=shim).stdout == b"one-time value\n"
    assert session.run("echo $REACH_PROOF").stdout == b"\n"


HOOK = {"GEMINI_PROJECT_DIR": "/w", "GEMINI_SESSION_ID": "x", "GEMINI_CWD": "/w"}


def test_a_hook_is_refused_and_says_so(session: ReachSession, tmp_path: Path) -> None:
    shim = session.launch()
    done = session.run(f"touch {tmp_path}/made", shim=shim, env={**shim.environment, **HOOK})
    assert (done.returncode, (tmp_path / "made").exists()) == (125, False)
    assert b"hook" in done.stderr
    assert b"--local-hooks" in done.stderr


def test_a_hook_runs_here_where_that_was_asked_for(session: ReachSession) -> None:
    shim = session.launch(local_hooks=True)
    done = session.run("uname -n; exit 3", shim=shim, env={**shim.environment, **HOOK})
    assert (done.returncode, done.stdout.strip().decode()) == (3, os.uname().nodename)
    assert session.run("uname -n", shim=shim).stdout.strip().decode() == session.server.hostname


@pytest.mark.parametrize("size", [100_000, 119_990, 120_050, 130_900, 131_060])
@pytest.mark.parametrize("option", ["-c", "-ec", "-uc"])
def test_a_command_up_to_the_kernel_s_limit_is_an_ordinary_one(session: ReachSession, size: int, option: str) -> None:
    head = f"echo $0 $1 $# $-; echo ${{#BASH_EXECUTION_STRING}}; false; echo {'$undefined' if 'u' in option else ''}"
    command = head + "\n#" + "x" * (size - len(head) - 2)
    ours = session.run(command, "zero", "one", options=(option,))
    theirs = subprocess.run(["bash", option, command, "zero", "one"], capture_output=True, stdin=subprocess.DEVNULL)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stderr == theirs.stderr


def _ask(session: ReachSession, command: bytes, *, size: int | None = None) -> tuple[bytes, bytes]:
    """Send a request that is longer than any argument here may be; the answer, and the output."""
    null = os.open("/dev/null", os.O_RDONLY)
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(str(session.paths.socket("t")))
        peer.settimeout(60)
        request = client.frame(client.encode_run(b"t", b"", b"/", 1, [b"-c", command], []))
        sent = peer.sendmsg([request[:65536]], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _array(null, writer, writer))])
        os.close(writer)
        try:
            peer.sendall(request[sent:])
        except OSError:
            pass
        with os.fdopen(reader, "rb") as stream:
            output = stream.read()
        answer = read_frame(peer)
        if answer == client.ANSWER_ACCEPTED:
            answer = read_frame(peer)
    os.close(null)
    return answer or b"", output


def _array(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)


def test_a_command_of_four_megabytes_runs(session: ReachSession) -> None:
    text = b"cat <<'E' | md5sum\n" + b"0123456789abcde\n" * (4 << 16) + b"E\nexit 9"
    answer, output = _ask(session, text)
    assert answer == client.ANSWER_STATUS + b"\x09"
    assert output == subprocess.run(["md5sum"], input=b"0123456789abcde\n" * (4 << 16), capture_output=True).stdout


def test_reach_exec_takes_words_that_are_too_long_together_for_one_argument(session: ReachSession) -> None:
    words = ["true", *(str(n) * 8 for n in range(100_000, 120_000)), ";", "echo", "ok;", "exit", "3"]
    argv = [sys.executable, "-c", "from reach.cli import main; main()", "exec", "--session", "t", "--", *words]
    env = {**os.environ, "REACH_HOME": str(session.home)}
    done = subprocess.run(argv, capture_output=True, env=env, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"ok\n", b"")


def test_a_command_over_the_limit_is_refused_clearly(session: ReachSession) -> None:
    answer, output = _ask(session, b"#" + b"x" * (17 << 20))
    assert answer[:1] == client.ANSWER_FAILURE
    assert b"limit" in answer
    assert output == b""


def test_commands_on_standard_input_run_there(session: ReachSession) -> None:
    script = b"echo start\n" + b"# padding\n" * 500_000 + b"uname -n; exit 6\n"
    done = subprocess.run([session.bash, "-s", "arg"], input=script, capture_output=True, timeout=60)
    assert done.stdout.decode().split() == ["start", session.server.hostname]
    assert done.returncode == 6


NOISE = "echo rc-out; echo rc-err >&2\n"
SHELLS = {
    "bash": (".bashrc", NOISE),
    "dash": (".profile", NOISE),
    "tcsh": (".tcshrc", "echo rc-out\n"),
    "fish": (".config/fish/config.fish", NOISE),
    "zsh": (".zshenv", NOISE),
}
TRICKY = r"""echo a 2>&1 | cat; test 1 = 1 && echo "it's \$HOME !x" 'back\' 'nes'\''ted' "\"deep'er\"" > >(cat)"""


@pytest.mark.root
@pytest.mark.parametrize("shell", SHELLS)
def test_any_login_shell_is_as_good_as_bash(make_session: Callable[..., ReachSession], shell: str) -> None:
    path = f"/usr/bin/{shell}" if Path(f"/usr/bin/{shell}").exists() else f"/bin/{shell}"
    if not Path(path).exists():
        pytest.skip(f"no {shell}")
    rc, text = SHELLS[shell]
    with Account(shell=path, files={rc: text}) as account, Sshd({"Banner": "/etc/passwd"}, user=account.name) as server:
        session = make_session(server)
        assert session.facts["login_shell"] == path
        ours = session.run(TRICKY)
        theirs = subprocess.run(["bash", "-c", TRICKY], capture_output=True)
        assert (ours.stdout, ours.stderr, ours.returncode) == (theirs.stdout, b"", 0)
        assert session.run("cat", input=b"payload").stdout == b"payload"
        assert session.run("kill -9 $$").returncode == -9
        assert session.run("ls").stdout == b""


@pytest.mark.root
def test_the_path_is_that_of_a_login_shell(make_session: Callable[..., ReachSession]) -> None:
    files = {
        ".profile": "export PATH=$HOME/tools:$PATH TMOUT=60 EXECIGNORE='*/bash'\n"
        "f() { echo from a function; }; export -f f\n",
        "tools/hidden": "#!/bin/sh\necho found\n",
    }
    with Account(files=files) as account, Sshd(user=account.name) as server:
        (account.home / "tools" / "hidden").chmod(0o755)
        session = make_session(server)
        assert session.run("hidden; f; echo $TMOUT").stdout == b"found\nfrom a function\n60\n"


@pytest.mark.root
def test_slow_start_up_files_slow_no_command_that_has_a_worker(make_session: Callable[..., ReachSession]) -> None:
    with Account(files={".bashrc": "sleep 1; echo noise\n"}) as account, Sshd(user=account.name) as server:
        session = make_session(server)
        assert [session.run(f"echo {n}").stdout for n in range(4)] == [f"{n}\n".encode() for n in range(4)]


def test_a_target_without_bash_is_served_by_its_sh(
    make_target: Callable[..., Sshd], make_session: Callable[..., ReachSession], tmp_path: Path
) -> None:
    """As near as it gets here: bash is not on PATH, and the account's shell only starts what it is told."""
    if os.geteuid() != 0:
        pytest.skip("needs an account whose shell is not bash")
    tools = Path("/var/tmp") / f"reach-nobash-{os.getpid()}"
    tools.mkdir()
    try:
        for name in ("env", "sh", "cat", "rm", "stty", "uname", "id", "sleep", "seq", "wc", "pgrep", "ls", "tty"):
            (tools / name).symlink_to(f"/usr/bin/{name}")
        tools.chmod(0o755)
        with Account(shell="/bin/dash") as account, Sshd({"SetEnv": f"PATH={tools}"}, user=account.name) as server:
            session = make_session(server)
            assert session.facts["shell"].endswith("/sh")
            _compare_with_dash(session)
    finally:
        for path in tools.iterdir():
            path.unlink()
        tools.rmdir()


def _compare_with_dash(session: ReachSession) -> None:
    from support.tty import Terminal
    from support.wrappers import WRAPPERS

    for command in (
        "echo ${x:-ok}", "[[ a == a ]]", "exit 7", "cat <<'E'\nhi\nE", "printf '%s|' 'a b' \"c'd\"", "cat; echo after",
        "echo err >&2", "pwd", "echo 'new\nline'", "printf '\\001\\033x'", "seq 3 | wc -l", "echo \\\\back",
    ):  # fmt: skip
        ours = session.run(command)
        theirs = subprocess.run(
            ["dash", "-c", command], capture_output=True, stdin=subprocess.DEVNULL, cwd=session.facts["folder"]
        )
        strip = theirs.stderr.replace(b"dash:", b"sh:")
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, strip), command
    assert session.run("kill -9 $$").returncode == -9
    assert session.run("cat", input=b"x\0y").stdout == b"x\0y"
    shim = session.launch(environment={"TMPDIR": str(session.home)})
    for wrapper in WRAPPERS:
        side = wrapper.prepare(session.home)
        done = session.run(wrapper.wrap(b"echo hi; sleep 0.4 &", side), shim=shim)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n", b""), wrapper.name
        assert side is None or side.read_text().strip(), wrapper.name
    env = {**shim.environment, "ADDED": "a\nb'c"}
    assert session.run('printf %s "$ADDED"', shim=shim, env=env).stdout == b"a\nb'c"
    assert session.run(f"# {'x' * 125_000}\necho $0 $#; exit 3", "zero", "one").returncode == 3
    with Terminal([session.bash, "-c", "tty; stty size; read x; echo got:$x"], cwd=session.home) as terminal:
        terminal.expect(b"10 112")
        terminal.send(b"in\x7fput\r")
        code, seen = terminal.finish()
    assert code == 0
    assert seen.endswith(b"got:iput\r\n")
    process = session.start("sleep 4801")
    from support.session import wait_for

    wait_for(lambda: session.remote_pids("sleep", "4801"), "the sleep")
    process.kill()
    process.communicate()
    wait_for(lambda: not session.remote_pids("sleep", "4801"), "the end of the sleep")


def test_start_up_files_that_wait_for_input_are_told_of(
    make_session: Callable[..., ReachSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    from reach.broker import worker

    assert worker.ANNOUNCE_TIMEOUT_S <= 30
    if os.geteuid() != 0:
        pytest.skip("needs an account of its own")
    with Account(files={".bashrc": "cat\n"}) as account, Sshd(user=account.name) as server:
        with pytest.raises((ReachError, AssertionError), match="start-up files may wait for input"):
            make_session(server)


def test_two_sessions_at_once_do_not_mix(make_session: Callable[..., ReachSession], session: ReachSession) -> None:
    with quiet_sshd() as server:
        other = make_session(server)
        names = {session.run("uname -n").stdout, other.run("uname -n").stdout}
    assert names == {f"{session.server.hostname}\n".encode(), f"{server.hostname}\n".encode()}
