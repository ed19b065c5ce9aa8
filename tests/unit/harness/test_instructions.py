from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reach.harness.gemini.orientation import find_imports
from reach.harness.instructions import MAX_FILE_BYTES, MAX_TOTAL_CHARS, Instructions, fetch_instructions


def fetch(folder: Path, shell: str = "sh") -> Instructions | None:
    def run(command: str) -> bytes:
        return subprocess.run([shell, "-c", command], cwd=folder, capture_output=True).stdout

    return fetch_instructions(run, "GEMINI.md", find_imports)


def text_of(folder: Path) -> str:
    found = fetch(folder)
    assert found
    return found.text


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_folder_without_any_has_none(tmp_path: Path) -> None:
    assert fetch(tmp_path) is None
    write(tmp_path / "GEMINI.md", " \n")
    assert fetch(tmp_path) is None


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh"])
def test_the_files_from_the_projects_root_down_are_told_outermost_first(tmp_path: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    project = tmp_path / "a 'project'"
    write(tmp_path / "GEMINI.md", "above the project")
    write(project / "GEMINI.md", "of the project")
    write(project / "part" / "x" / "GEMINI.md", "of the part")
    (project / ".git").mkdir()
    found = fetch(project / "part" / "x", shell)
    assert found
    assert found.text.index("of the project") < found.text.index("of the part")
    assert f"Of `{project}/GEMINI.md`:" in found.text
    assert "above" not in found.text


def test_without_a_project_only_the_folders_own_file_counts(tmp_path: Path) -> None:
    write(tmp_path / "GEMINI.md", "above")
    write(tmp_path / "x" / "GEMINI.md", "own")
    assert text_of(tmp_path / "x") == "own"


def test_imports_inside_the_project_are_put_in_place(tmp_path: Path) -> None:
    write(tmp_path / "GEMINI.md", "first\n@docs/style.md last\nsee `@docs/code.md` and me@docs/style.md")
    write(tmp_path / "docs" / "style.md", "tabs, @./deep.md")
    write(tmp_path / "docs" / "deep.md", "eight wide")
    write(tmp_path / "docs" / "code.md", "never")
    text = text_of(tmp_path)
    assert "tabs, (from `./deep.md`:)\neight wide\n(end of `./deep.md`)" in text
    assert text.startswith("first\n(from `docs/style.md`:)\ntabs")
    assert "`@docs/code.md`" in text
    assert "me@docs/style.md" in text
    assert "never" not in text


def test_imports_that_loop_miss_or_leave_the_project_stay_as_they_are(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(tmp_path / "secret.md", "outside")
    write(project / "GEMINI.md", "@GEMINI.md @loop.md @absent.md @../secret.md @/etc/passwd @pytest.fixture @~/x")
    write(project / "loop.md", "again @GEMINI.md @loop.md")
    text = text_of(project)
    assert "again @GEMINI.md @loop.md" in text
    assert "@absent.md @../secret.md @/etc/passwd @pytest.fixture @~/x" in text
    assert "outside" not in text


def test_much_text_is_cut_and_said(tmp_path: Path) -> None:
    write(tmp_path / "GEMINI.md", "x" * (MAX_FILE_BYTES * 2))
    found = fetch(tmp_path)
    assert found
    assert len(found.text) == MAX_FILE_BYTES
    assert found.is_cut_short
    write(tmp_path / "GEMINI.md", " ".join(f"@f{n}.md" for n in range(60)))
    for n in range(60):
        write(tmp_path / f"f{n}.md", "y" * MAX_FILE_BYTES)
    found = fetch(tmp_path)
    assert found
    assert len(found.text) == MAX_TOTAL_CHARS
    assert found.is_cut_short


def test_odd_bytes_and_names_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "GEMINI.md").write_bytes(b"a\0b\xff @$(touch${IFS}made) @`x` @'q'.md @-rf @a;b.md")
    write(tmp_path / "a;b.md", "odd name")
    text = text_of(tmp_path)
    assert text.startswith("ab\ufffd")
    assert "odd name" in text
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("output", [b"", b"\0", b"/r", b"/r\0/r/GEMINI.md", b"/r\0/r/GEMINI.md\0text"])
def test_an_answer_that_is_cut_off_is_none(output: bytes) -> None:
    assert fetch_instructions(lambda _: output, "GEMINI.md", find_imports) is None


def test_a_target_that_answers_with_other_files_is_not_believed() -> None:
    answers = iter([b"/r\0/r/GEMINI.md\0see @x.md\0", b"/r/other.md\0evil\0/r/x.md\0fine\0"])
    found = fetch_instructions(lambda _: next(answers, b""), "GEMINI.md", find_imports)
    assert found
    assert "fine" in found.text
    assert "evil" not in found.text
