"""A command on a terminal: it has one on the target too, of the same size, and every key means what it means here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from support.accounts import Account
from support.processes import is_stopped
from support.session import ReachSession, wait_for
from support.sshd import Sshd
from support.tty import Terminal

pytestmark = [pytest.mark.sshd, pytest.mark.transports("paramiko", "openssh")]


def _terminal(session: ReachSession, command: str, **keywords: object) -> Terminal:
    return Terminal([session.bash, "-c", command], cwd=session.home, **keywords)  # type: ignore[arg-type, list-item]


def test_a_terminal_of_the_same_size_and_kind_is_there(session: ReachSession) -> None:
    command = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && tty && stty size && echo $TERM"
    for columns, rows, term in ((112, 10, "xterm-256color"), (300, 77, "screen"), (40, 5, "dumb")):
        env = {"PATH": "/usr/bin:/bin", "TERM": term}
        with _terminal(session, command, columns=columns, rows=rows, env=env) as terminal:
            code, seen = terminal.finish()
        assert code == 0
        assert re.fullmatch(rb"/dev/pts/\d+\r\n%d %d\r\n%s\r\n" % (rows, columns, term.encode()), seen), seen


def test_a_terminal_is_resized_while_the_command_runs(session: ReachSession) -> None:
    command = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    with _terminal(session, command) as terminal:
        terminal.expect(b"ready")
        terminal.resize(61, 17)
        terminal.expect(b"17 61")
        assert terminal.finish()[0] == 0


def test_a_line_is_echoed_once_and_read(session: ReachSession) -> None:
    with _terminal(session, "read -p 'name? ' x; echo got:$x") as terminal:
        terminal.expect(b"name? ")
        terminal.send(b"anna\x7fe\r")
        assert terminal.finish() == (0, b"anna\x08 \x08e\r\ngot:anne\r\n")


def test_erasing_a_character_of_several_bytes_erases_all_of_them(session: ReachSession) -> None:
    with _terminal(session, "stty -a | grep -o -- '-\\?iutf8'; read x; printf %s \"$x\" | wc -c") as terminal:
        terminal.expect(b"iutf8")
        terminal.send("é\x7fa\r".encode())
        assert terminal.finish()[1].endswith(b"1\r\n")


def test_ctrl_c_interrupts_the_remote_command(session: ReachSession) -> None:
    with _terminal(session, "echo ready; sleep 4501; echo not reached") as terminal:
        terminal.expect(b"ready")
        wait_for(lambda: session.remote_pids("sleep", "4501"), "the sleep")
        terminal.send(b"\x03")
        code, seen = terminal.finish()
    assert code == -signal.SIGINT
    assert b"not reached" not in seen
    assert not session.remote_pids("sleep", "4501")


def test_ctrl_c_reaches_a_trap_there_and_not_the_shim(session: ReachSession) -> None:
    with _terminal(session, "trap 'echo caught; exit 3' INT; echo ready; sleep 4502 & wait") as terminal:
        terminal.expect(b"ready")
        terminal.send(b"\x03")
        terminal.expect(b"caught")
        assert terminal.finish()[0] == 3


def test_ctrl_d_ends_the_input(session: ReachSession) -> None:
    with _terminal(session, "echo ready; cat; echo ended") as terminal:
        terminal.expect(b"ready")
        terminal.send(b"one\r")
        terminal.expect(b"one\r\none\r\n")
        terminal.send(b"\x04")
        terminal.expect(b"ended")
        assert terminal.finish()[0] == 0


def test_ctrl_z_stops_a_job_of_an_interactive_shell(session: ReachSession) -> None:
    with Terminal([str(session.bash), "--norc", "-i"], cwd=session.home) as terminal:
        terminal.send(b"PS1='$ '; sleep 4503\r")
        (sleep,) = wait_for(lambda: session.remote_pids("sleep", "4503"), "the sleep")
        terminal.send(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.send(b"fg\r")
        terminal.expect(b"fg\r\n")
        terminal.expect(b"sleep 4503")
        wait_for(lambda: not is_stopped(sleep), "the sleep to have the terminal again")
        terminal.send(b"\x03")
        terminal.expect(b"$ ")
        terminal.send(b"exit 7\r")
        code, _ = terminal.finish()
    assert code == 7


def test_ctrl_backslash_quits_the_remote_command(session: ReachSession) -> None:
    with _terminal(session, "ulimit -c 0; echo ready; exec sleep 4504") as terminal:
        terminal.expect(b"ready")
        wait_for(lambda: session.remote_pids("sleep", "4504"), "the sleep")
        terminal.send(b"\x1c")
        assert terminal.finish()[0] == -signal.SIGQUIT


def test_the_terminal_is_as_it_was_when_the_command_has_ended(session: ReachSession) -> None:
    with _terminal(session, "stty raw -echo; exit 4") as terminal:
        assert terminal.finish()[0] == 4
        assert terminal.current_modes() == terminal.modes


def test_the_terminal_is_as_it_was_when_the_shim_is_killed(session: ReachSession) -> None:
    with _terminal(session, "trap '' TERM HUP; echo ready; sleep 4505") as terminal:
        terminal.expect(b"ready")
        assert terminal.current_modes() != terminal.modes
        terminal.process.kill()
        wait_for(lambda: terminal.current_modes() == terminal.modes, "the terminal's own modes")
    wait_for(lambda: not session.remote_pids("sleep", "4505"), "the end of the sleep")


def test_control_bytes_and_long_commands_get_there_through_a_terminal(session: ReachSession) -> None:
    odd = "".join(map(chr, range(1, 32))) + "\x7f'\"\\é"
    command = f"printf %s '{odd.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}' | od -An -tx1 | tr -d ' \\n'"
    with _terminal(session, command, columns=500) as terminal:
        assert terminal.finish() == (0, odd.encode().hex().encode())
    long = "x" * 9000
    with _terminal(session, f"echo {long} | wc -c; printf '{long}' | wc -c") as terminal:
        assert terminal.finish()[1].split() == [b"9001", b"9000"]
    with _terminal(session, f"# {'y' * 125_000}\necho done") as terminal:
        assert terminal.finish(60) == (0, b"done\r\n")


def test_a_pager_shows_a_page_and_quits(session: ReachSession) -> None:
    if not shutil.which("less"):
        pytest.skip("no less")
    with _terminal(session, "seq 100 | less", rows=10) as terminal:
        terminal.expect(b"9")
        terminal.send(b" ")
        terminal.expect(b"18")
        terminal.send(b"q")
        assert terminal.finish()[0] == 0


def test_an_editor_writes_its_file(session: ReachSession) -> None:
    editor = next((name for name in ("vim", "vi", "nano") if shutil.which(name)), None)
    if editor is None:
        pytest.skip("no editor")
    path = session.home / "edited"
    with _terminal(session, f"{editor} {path}", rows=24) as terminal:
        terminal.expect(b"edited")
        terminal.send(b"typed\r\x18y\r" if editor == "nano" else b"ityped\x1b:wq\r")
        assert terminal.finish()[0] == 0
    assert path.read_text() == "typed\n"


def test_a_full_screen_program_runs_until_its_key(session: ReachSession) -> None:
    if not shutil.which("top"):
        pytest.skip("no top")
    with _terminal(session, "top", rows=24) as terminal:
        terminal.expect(b"load average")
        terminal.send(b"q")
        assert terminal.finish()[0] == 0


def test_errors_in_the_trash_leave_the_terminal_to_the_rest(session: ReachSession) -> None:
    null = os.open("/dev/null", os.O_WRONLY)
    command = "[ -t 1 ] && echo tty; [ -t 2 ] || echo no tty; echo lost >&2"
    with _terminal(session, command, stderr=null) as terminal:
        assert terminal.finish() == (0, b"tty\r\nno tty\r\n")
    os.close(null)


def test_errors_kept_apart_get_to_their_file(session: ReachSession, tmp_path: Path) -> None:
    with open(tmp_path / "err", "wb") as err:
        with _terminal(session, "echo out; echo err >&2", stderr=err.fileno()) as terminal:
            assert terminal.finish()[1].split() == [b"out"]
    assert (tmp_path / "err").read_bytes() == b"err\n"


def test_a_background_job_ends_with_its_terminal_as_it_does_here(session: ReachSession) -> None:
    command = "sleep 4506 & trap '' HUP; sleep 4507 >/dev/null 2>&1 & trap - HUP; echo started"
    with _terminal(session, command) as terminal:
        terminal.expect(b"started")
        assert terminal.finish()[0] == 0
    wait_for(lambda: not session.remote_pids("sleep", "4506"), "the end of the job")
    [kept] = wait_for(lambda: session.remote_pids("sleep", "4507"), "the job that hears of no hangup")
    os.kill(kept, signal.SIGKILL)


def test_a_password_prompt_reads_from_the_remote_terminal(session: ReachSession) -> None:
    """As sudo asks: on the terminal itself, without echo."""
    program = "import getpass; p = getpass.getpass('[sudo] password: '); print('length', len(p))"
    with _terminal(session, f'"{sys.executable}" -c "{program}" </dev/null') as terminal:
        terminal.expect(b"password: ")
        terminal.send(b"s3cret\r")
        code, seen = terminal.finish()
    assert code == 0
    assert b"s3cret" not in seen
    assert b"length 6" in seen


@pytest.mark.root
def test_sudo_asks_on_the_remote_terminal_and_fails_at_once_without_one(
    make_session: Callable[..., ReachSession],
) -> None:
    if not shutil.which("sudo"):
        pytest.skip("no sudo")
    rule = Path("/etc/sudoers.d/reach-test")
    with Account(password="s3cret") as account, Sshd(user=account.name) as server:
        rule.write_text(f"{account.name} ALL=(ALL) ALL\nDefaults:{account.name} !lecture\n")
        try:
            session = make_session(server)
            done = session.run("sudo true", timeout_s=30)
            assert done.returncode == 1
            assert b"a terminal is required" in done.stderr
            with _terminal(session, "sudo -p 'pass: ' id -u") as terminal:
                terminal.expect(b"pass: ")
                terminal.send(b"s3cret\r")
                code, seen = terminal.finish()
            assert (code, seen.split()) == (0, [b"0"])
        finally:
            rule.unlink()


def test_two_terminals_at_once_do_not_mix(session: ReachSession) -> None:
    with _terminal(session, "read x; echo one:$x") as first, _terminal(session, "read x; echo two:$x") as second:
        second.send(b"b\r")
        second.expect(b"two:b")
        first.send(b"a\r")
        first.expect(b"one:a")
        assert (first.finish()[0], second.finish()[0]) == (0, 0)


def test_type_ahead_is_not_lost(session: ReachSession) -> None:
    with _terminal(session, "sleep 0.2; read x; echo got:$x") as terminal:
        terminal.send(b"early\r")
        terminal.expect(b"got:early")
        assert terminal.finish()[0] == 0


def test_a_terminal_is_usable_after_the_broker_went_away(session: ReachSession) -> None:
    with _terminal(session, "echo ready; sleep 4508") as terminal:
        terminal.expect(b"ready")
        os.kill(session.broker_pid, signal.SIGKILL)
        assert terminal.finish()[0] == 125
        local = terminal.current_modes()[3]
        assert local & termios.ICANON
        assert local & termios.ECHO
    subprocess.run([session.bash, "-c", "true"], check=True)
    wait_for(lambda: not session.remote_pids("sleep", "4508"), "the end of the orphan")
