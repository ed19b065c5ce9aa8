from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from reach.broker.wrapper import SideFile, adapt, model_command, write_side_file
from support.wrappers import SHOPT, WRAPPERS, Wrapper

COMMANDS = [b"echo hi", b"cat <<'E'\nhi\nE", b"sleep 9 &", b"true # )\n}\n__code=1", b"", b"echo \xff", b"(\n{\n}\n)"]


FOLDERS = ["plain", "with space", "qu'ote", 'dou"ble', "dollar$x", "ünïcode"]
PLACES = [(w, f) for w in WRAPPERS if w.side for f in (FOLDERS[:1] if w.is_one_line else FOLDERS)]
"""The versions that write the command on one line do not quote the path at all."""


@pytest.mark.parametrize(("wrapper", "folder"), PLACES, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("command", COMMANDS, ids=repr)
def test_a_wrapper_is_known_and_keeps_the_command(
    wrapper: Wrapper, command: bytes, folder: str, tmp_path: Path
) -> None:
    (tmp_path / folder).mkdir(mode=0o700)
    side = wrapper.prepare(tmp_path / folder)
    adapted = adapt(wrapper.wrap(command, side))
    assert adapted.side_file == SideFile(os.fsencode(str(side)), wrapper.name.endswith("typed"))
    assert command.strip() in adapted.text
    assert os.fsencode(str(tmp_path)) not in adapted.text
    assert b"/dev/fd/52" in adapted.text


@pytest.mark.parametrize(
    "text",
    [
        b"echo hi",
        b"{ echo hi; }",
        b"(\necho hi\n)\n__code=$?\nexit $__code",
        SHOPT + b"(\necho\n)\n__code=$?; pgrep -g 0 >/tmp/somewhere/else.tmp 2>&1; exit $__code;",
        b"x=/tmp/notes.txt\n(\n  make > $x\n)\nrc=$?\nexit $rc",
        SHOPT + b"_bgpids_file=/tmp/gemini-shell-NoSuch/bgpids.tmp\n(\ntrue\n)\n__code=$?\nexit $__code",
        SHOPT + b"_bgpids_file=/etc/gemini-shell-x/bgpids.tmp\n(\ntrue\n)\n__code=$?\nexit $__code",
        SHOPT + b"_bgpids_file=relative/gemini-shell-x/bgpids.tmp\n(\ntrue\n)\n__code=$?\nexit $__code",
        SHOPT + b"{\necho\n)\n__code=$?; pwd > /tmp/gemini-shell-x/pwd.tmp; exit $__code",
        b"{ echo; }; __code=$?; pgrep -g 0 >/tmp/shell_pgrep_ab.tmp 2>&1; exit $__other;",
    ],
)
def test_what_is_no_wrapper_goes_along_unchanged(text: bytes) -> None:
    adapted = adapt(text)
    assert adapted.side_file is None
    assert adapted.text == text


def test_a_side_file_in_a_folder_that_others_can_write_is_not_taken(tmp_path: Path) -> None:
    wrapper = WRAPPERS[4]
    side = wrapper.prepare(tmp_path)
    assert side is not None
    side.parent.chmod(0o777)
    assert adapt(wrapper.wrap(b"true", side)).side_file is None


def test_a_link_in_place_of_the_harness_folder_is_not_followed(tmp_path: Path) -> None:
    wrapper = WRAPPERS[4]
    side = wrapper.prepare(tmp_path)
    assert side is not None
    side.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    side.parent.symlink_to(tmp_path / "elsewhere")
    assert adapt(wrapper.wrap(b"true", side)).side_file is None


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.name)
def test_the_log_shows_the_model_command_alone(wrapper: Wrapper, tmp_path: Path) -> None:
    assert model_command(wrapper.wrap(b"echo hi", wrapper.prepare(tmp_path))) == b"echo hi"


def test_the_words_of_the_target_shell_without_shopt_are_left_out(tmp_path: Path) -> None:
    wrapper = WRAPPERS[4]
    text = adapt(wrapper.wrap(b"true", wrapper.prepare(tmp_path)), posix=True).text
    assert b"shopt" not in text
    assert b"/dev/fd/9" in text


@pytest.mark.parametrize(
    ("content", "written", "numbers"),
    [
        (b"12\n34\n", b"12\n34\n", [12, 34]),
        (b"77\n12\n", b"5\n12\n", [12]),
        (b"", b"", []),
        (b"bash: line 1: pgrep: command not found\n", None, []),
        (b"12\nrm -rf /\n", None, []),
        (b"\x1b[31m", None, []),
    ],
)
def test_only_process_ids_get_into_the_file_of_process_ids(
    tmp_path: Path, content: bytes, written: bytes | None, numbers: list[int]
) -> None:
    path = tmp_path / "bgpids.tmp"
    shown = write_side_file(SideFile(os.fsencode(path), False), content, None, "/far", {b"77": b"5"})
    assert shown == numbers
    assert (path.read_bytes() if path.exists() else None) == written


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (b"/far/project\n", b"/near\n"),
        (b"/far/project/sub dir\n", b"/near/sub dir\n"),
        (b"/far/project/ends\n\n", b"/near/ends\n\n"),
        (b"/far/projects\n", b"/far/projects\n"),
        (b"/etc\n", b"/etc\n"),
        (b"not a folder\n", None),
        (b"", None),
    ],
)
def test_the_working_folder_is_told_as_the_local_one(tmp_path: Path, content: bytes, written: bytes | None) -> None:
    path = tmp_path / "pwd.tmp"
    write_side_file(SideFile(os.fsencode(path), True), content, "/near", "/far/project", {})
    assert (path.read_bytes() if path.exists() else None) == written


def test_no_file_but_a_plain_one_is_written(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    link = tmp_path / "link.tmp"
    link.symlink_to(precious)
    fifo = tmp_path / "fifo.tmp"
    os.mkfifo(fifo)
    for path in (link, fifo, tmp_path, tmp_path / "no" / "folder.tmp"):
        assert write_side_file(SideFile(os.fsencode(path), False), b"1\n", None, "/far", {}) == []
    assert precious.read_text() == "keep"
    fresh = tmp_path / "fresh.tmp"
    write_side_file(SideFile(os.fsencode(fresh), False), b"1\n", None, "/far", {})
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o600
