"""What the shim hands to this machine's own bash, and in which state."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.session import ReachSession

pytestmark = pytest.mark.sshd

ODD = {
    "LINES_": "one\ntwo",
    "EMPTY": "",
    "QUOTES": "'\"`$x\\",
    "dotted.name": "kept",
    "BASH_FUNC_greet%%": "() {  echo hi\n}",
    "LATIN": b"caf\xe9",
    "_": "/usr/bin/env",
}
LOCALES = {
    "unset": {},
    "c": {"LC_ALL": "C"},
    "posix": {"LANG": "POSIX"},
    "utf8": {"LC_ALL": "C.UTF-8"},
    "lc-ctype-given": {"LC_CTYPE": "C"},
}


def _write_script(path: Path, first_line: str, body: str) -> Path:
    path.write_text(f"{first_line}\n{body}\n")
    path.chmod(0o755)
    return path


DUMP = """tr '\\0' '\\n' </proc/$$/environ >"$OUT.environ"
/usr/bin/env -0 >"$OUT.exported"
printf '%s\\0' "$0" "$@" >"$OUT.arguments"
bash -c hostname >"$OUT.hostname" """
ARGUMENTS: list[str | bytes] = ["-c", "two words", "", "--version", "new\nline", b"\xff\xfe", "é"]


@pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES.keys())
@pytest.mark.parametrize("launcher", ["env-bash-script", "pyenv-style-python3"])
def test_shim_passthrough_leaves_the_seam_armed(
    session: ReachSession, tmp_path: Path, launcher: str, locale: dict[str, str]
) -> None:
    script = _write_script(tmp_path / "launcher", "#!/usr/bin/env bash", DUMP)
    if launcher == "pyenv-style-python3":
        _write_script(tmp_path / "python3", "#!/usr/bin/env bash", DUMP)
        script = _write_script(tmp_path / "agent", "#!/usr/bin/env python3", "raise SystemExit('not this one')")
    genuine = tmp_path / "genuine"
    genuine.mkdir()
    (genuine / "bash").symlink_to("/bin/bash")
    results = {}
    for name, first in (("shim", session.shim_folder), ("real", genuine)):
        environment = {
            "PATH": f"{first}:{tmp_path}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "OUT": str(tmp_path / name),
            **ODD,
            **locale,
        }
        subprocess.run([script, *ARGUMENTS], env=environment, check=True)
        results[name] = {
            kind: (tmp_path / f"{name}.{kind}").read_bytes().replace(str(first).encode(), b"FIRST")
            .replace(f"OUT={tmp_path}/{name}".encode(), b"OUT")
            for kind in ("environ", "exported", "arguments", "hostname")
        }  # fmt: skip
    hostname = results["shim"].pop("hostname").strip()
    assert results["real"].pop("hostname").strip() == os.uname().nodename.encode()
    assert results["shim"] == results["real"]
    assert hostname == session.server.hostname.encode()


def test_a_variable_given_twice_reaches_the_real_shell_twice(session: ReachSession, tmp_path: Path) -> None:
    """execve takes what a dict can't hold; only the kernel's own copy of the environment shows it."""
    dump = _write_script(tmp_path / "dump", "#!/usr/bin/env bash", "cat /proc/$$/environ")
    import ctypes

    path = f"PATH={session.shim_folder}:/usr/bin:/bin".encode()
    entries = [path, b"TWICE=1", b"TWICE=2", b"=odd", b"=odd=er", b"plain"]
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writer, 1)
        argv = (ctypes.c_char_p * 2)(str(dump).encode(), None)
        envp = (ctypes.c_char_p * (len(entries) + 1))(*entries, None)
        ctypes.CDLL(None).execve(str(dump).encode(), argv, envp)
        os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        seen = stream.read().split(b"\0")
    assert os.waitpid(pid, 0)[1] == 0
    assert [entry for entry in seen if b"TWICE" in entry] == [b"TWICE=1", b"TWICE=2"]
    assert seen[0] == entries[0]


def test_script_files_run_here_and_commands_run_there(session: ReachSession, tmp_path: Path) -> None:
    script = tmp_path / "where"
    script.write_text("uname -n; exit 3\n")
    local = subprocess.run([session.bash, script], capture_output=True)
    with script.open("rb") as commands:
        remote = subprocess.run([session.bash], stdin=commands, capture_output=True)
    assert (local.stdout.strip(), local.returncode) == (os.uname().nodename.encode(), 3)
    assert (remote.stdout.strip(), remote.returncode) == (session.server.hostname.encode(), 3)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["-c"], ["-Q"], ["--no-such-option", "-c", "x"]])
def test_what_runs_nothing_is_answered_by_the_real_shell(session: ReachSession, arguments: list[str]) -> None:
    ours = subprocess.run([session.bash, *arguments], capture_output=True, env={"PATH": "/usr/bin:/bin"})
    theirs = subprocess.run(["bash", *arguments], capture_output=True, env={"PATH": "/usr/bin:/bin"})
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_the_real_shell_gets_the_default_for_signals_that_python_ignores(session: ReachSession, tmp_path: Path) -> None:
    script = tmp_path / "ignored"
    script.write_text("grep SigIgn /proc/self/status\n")
    ours = subprocess.run([session.bash, script], capture_output=True)
    theirs = subprocess.run(["/bin/bash", script], capture_output=True)
    assert ours.stdout == theirs.stdout


def test_another_shim_on_path_is_never_taken_for_the_real_bash(session: ReachSession, tmp_path: Path) -> None:
    """Two sessions, or a copy of the folder: the file tells, not the folder."""
    copy = tmp_path / "copied"
    copy.mkdir()
    shutil.copy(session.bash, copy / "bash")
    script = tmp_path / "script"
    script.write_text("readlink /proc/$$/exe\n")
    done = subprocess.run(
        [session.bash, script], capture_output=True, env={"PATH": f"{session.shim_folder}:{copy}:/usr/bin:/bin"}
    )
    assert (done.returncode, done.stdout) == (0, b"/usr/bin/bash\n"), done.stderr


def test_env_i_with_only_path_and_home_still_reaches_the_target(session: ReachSession) -> None:
    argv = ["env", "-i", f"PATH={session.shim_folder}:/usr/bin:/bin", "HOME=/nonexistent", "bash", "-c", "hostname"]
    done = subprocess.run(argv, capture_output=True)
    assert (done.returncode, done.stdout.strip().decode()) == (0, session.server.hostname)


@pytest.mark.parametrize("kind", ["fifo", "link-to-stdin", "found-on-path"])
def test_commands_on_their_way_under_a_file_name_are_no_script_of_this_machine(
    session: ReachSession, tmp_path: Path, kind: str
) -> None:
    name, ran = tmp_path / "script", tmp_path / "ran-here"
    if kind == "fifo":
        os.mkfifo(name)
    else:
        name.symlink_to("/dev/stdin")
    given, path = ("stdin", "/dev:/usr/bin:/bin") if kind == "found-on-path" else (str(name), "/usr/bin:/bin")
    done = subprocess.run(
        [str(session.bash), given],
        input=f"touch {ran}\n",
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={"PATH": path},
    )
    assert done.returncode == 125
    assert done.stderr.startswith("reach: session ")
    assert not ran.exists()
