from __future__ import annotations

from pathlib import Path

from reach.harness.gemini.warning import TITLE, show_inside


def test_the_warning_lies_where_gemini_cli_looks_for_its_own(tmp_path: Path) -> None:
    assert show_inside("careful", {"TMPDIR": str(tmp_path), "TMP": "/nonesuch"}) == {"CLI_TITLE": TITLE}
    (found,) = tmp_path.iterdir()
    assert (found.name, found.read_text(), found.stat().st_mode & 0o777) == (
        "gemini-cli-warnings.txt",
        "careful\n",
        0o600,
    )


def test_what_lies_there_already_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("of somebody else")
    (tmp_path / "gemini-cli-warnings.txt").symlink_to(tmp_path / "elsewhere")
    assert show_inside("careful", {"TMPDIR": str(tmp_path)}) == {"CLI_TITLE": TITLE}
    assert (tmp_path / "elsewhere").read_text() == "of somebody else"
