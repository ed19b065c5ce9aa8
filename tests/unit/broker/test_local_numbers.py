from __future__ import annotations

import os
import subprocess

import pytest

from reach.broker.local_numbers import MAX_NUMBERS, LocalNumbers, kill_function, number_functions


def _numbers() -> LocalNumbers:
    numbers = LocalNumbers()
    numbers.note(14599, 2202)
    return numbers


@pytest.mark.parametrize(
    "command",
    [
        b"kill 14599", b"kill -- -14599", b"kill -9 14599", b"kill -TERM -14599", b"kill -s INT 14599 &",
        b"echo x; kill 14599 2>/dev/null || true", b"(kill 14599)", b"if kill -0 14599; then echo up; fi",
        b"sleep 1 && kill 999 14599", b"kill\t14599", b"ps; kill '14599'", b"pkill -g 14599", b"/bin/kill 14599",
        b"/usr/bin/kill -9 -- -14599", b"sudo kill 14599", b"sudo -n kill -9 14599", b"ps -p 14599",
        b"ps -p14599 -o pid=", b"ps --ppid=14599", b"ps -p 1,14599", b"pgrep -P 14599 -l", b"pkill -P14599",
    ],
)  # fmt: skip
def test_a_number_of_ours_in_a_kill_is_found(command: bytes) -> None:
    assert _numbers().meant_by(command) == {14599: 2202}


@pytest.mark.parametrize(
    "command",
    [
        b"echo 14599", b"kill 14598", b"kill 145990", b"kill 1.14599", b"killall 14599",
        b"skill 14599", b"echo kill; echo 14599", b"kill %1; ls 14599", b"/opt/kill 14599", b"cat a-kill 14599",
        b"ls", b"", b"ps aux | grep 14599", b"tops 14599", b"nice-ps 14599", b"ps -p 114599,145990",
    ],
)  # fmt: skip
def test_other_numbers_are_left_alone(command: bytes) -> None:
    assert _numbers().meant_by(command) == {}


def test_a_number_that_came_from_the_target_means_the_target_s() -> None:
    numbers = _numbers()
    numbers.came_from_target([14599])
    assert numbers.meant_by(b"kill 14599") == {}
    numbers.note(14599, 77)
    assert numbers.meant_by(b"kill 14599") == {14599: 77}


def test_the_oldest_numbers_are_forgotten() -> None:
    numbers = _numbers()
    for number in range(20000, 20000 + MAX_NUMBERS):
        numbers.note(number, 1)
    assert numbers.meant_by(b"kill 14599") == {}


def _bash(text: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    argv = ["bash", "-c", text, "bash", *arguments]
    return subprocess.run(argv, capture_output=True, env={"PATH": os.defpath, "LC_ALL": "C"})


def test_kill_reaches_the_other_process_and_says_what_the_builtin_says() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        function = kill_function({14599: process.pid})
        assert _bash(function + b"\nkill -0 14599").returncode == 0
        assert _bash(function + b"\nkill -- -14599").returncode == 0
        assert process.wait(20) == -15
    gone = _bash(function + b"\nkill 14599")
    alike = _bash(b"\n" * function.count(b"\n") + b"\nkill 14599")
    assert (gone.returncode, gone.stdout, gone.stderr) == (alike.returncode, alike.stdout, alike.stderr)


@pytest.mark.parametrize("arguments", ["-l", "-l 9", "-L", "", "-9", "%1", "-nosuch 1", "-s", "-n 0 $$", "-0 $$ 99"])
def test_kill_without_such_a_number_is_the_builtin(arguments: str) -> None:
    function = kill_function({14599: 2202})
    ours = _bash(function + f"\nkill {arguments}".encode())
    theirs = _bash(b"f() { builtin kill \"$@\"; }\n" + f"f {arguments}".encode())
    strip = [line.split(b": ", 2)[-1] for line in ours.stderr.splitlines()]
    assert strip == [line.split(b": ", 2)[-1] for line in theirs.stderr.splitlines()]
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)


def test_no_numbers_no_function() -> None:
    assert kill_function({}) == b""


@pytest.mark.parametrize(
    ("command", "called"),
    [
        ("ps -p 14599", "-p 2202"),
        ("ps -p14599", "-p2202"),
        ("ps --pid=14599 -o pid=", "--pid=2202 -o pid="),
        ("ps -p 1,14599,77", "-p 1,2202,77"),
        ("ps -o pid= -p '14599'", "-o pid= -p 2202"),
        ("ps -p 145990,114599 -p 14599", "-p 145990,114599 -p 2202"),
        ("pgrep -lP 1,14599 sh", "-lP 1,2202 sh"),
        ("pkill -TERM -g 14599 -f 'a  b'", "-TERM -g 2202 -f a  b"),
        ("/bin/kill -9 14599", "-9 2202"),
        ("/bin/kill -14599 5", "-14599 5"),
        ("/usr/bin/kill -- -14599", "-- -2202"),
        ("sudo kill 14599", "kill 2202"),
        ("sudo -u root -n /bin/kill -KILL -14599", "-u root -n /bin/kill -KILL -2202"),
        ("sudo ps -p 14599", "ps -p 2202"),
        ("sudo echo 14599", "echo 14599"),
        ("sudo kill -14599 1", "kill -14599 1"),
    ],
)
def test_a_program_gets_the_number_that_is_meant(command: str, called: str) -> None:
    functions = number_functions(command.encode(), {14599: 2202})
    stand_in = b"command() { shift; printf '%s' \"$*\"; exit 3; }\n"
    done = _bash(stand_in + functions + b"\nset -eu; IFS=,\n" + command.encode().replace(b"IFS", b""))
    assert (done.returncode, done.stderr) == (3, b"")
    assert done.stdout.decode().replace(",", " ") == called.replace(",", " ")


def test_only_what_is_called_with_such_a_number_becomes_a_function() -> None:
    functions = number_functions(b"ps aux; kill 14599; pgrep x; sudo ls", {14599: 2202})
    assert functions == kill_function({14599: 2202})
