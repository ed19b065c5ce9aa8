from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.errors import HarnessError
from reach.harness.gemini.preferences import carried_over, load_settings, strip_comments, value_at

OPERATORS_SETTINGS: dict[str, Any] = {
    "ui": {"theme": "Dracula", "hideTips": True},
    "general": {"vimMode": True, "preferredEditor": "vim", "checkpointing": {"enabled": True}},
    "model": {"name": "gemini-2.5-flash"},
    "security": {"auth": {"selectedType": "oauth-personal"}, "folderTrust": {"enabled": False}},
    "tools": {
        "core": ["read_file"],
        "exclude": [],
        "allowed": ["write_file"],
        "sandbox": "docker",
        "discoveryCommand": "x",
        "shell": {"inactivityTimeout": 42, "pager": "less"},
    },
    "mcpServers": {"x": {"command": "y"}},
    "mcp": {"allowed": ["x"]},
    "hooks": {"SessionStart": []},
    "hooksConfig": {"enabled": True},
    "context": {"fileName": "OTHER.md", "includeDirectories": ["/"]},
    "extensions": {"disabled": []},
    "experimental": {"enableAgents": True},
    "telemetry": {"enabled": True, "outfile": "/tmp/x"},
    "policyPaths": ["/tmp"],
}


def test_what_is_carried_over_is_what_reaches_neither_tools_nor_files() -> None:
    assert carried_over(OPERATORS_SETTINGS) == {
        "ui": {"theme": "Dracula", "hideTips": True},
        "general": {"vimMode": True, "preferredEditor": "vim"},
        "model": {"name": "gemini-2.5-flash"},
        "security": {"auth": {"selectedType": "oauth-personal"}},
        "selectedAuthType": "oauth-personal",
        "tools": {"shell": {"inactivityTimeout": 42}},
    }


def test_the_older_layout_is_carried_over_with_the_sign_in_under_both_names() -> None:
    old = {"theme": "GitHub", "selectedAuthType": "gemini-api-key", "coreTools": ["x"], "model": "m", "sandbox": True}
    assert carried_over(old) == {
        "theme": "GitHub",
        "selectedAuthType": "gemini-api-key",
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "model": {"name": "m"},
    }


@pytest.mark.parametrize(
    "odd", [{"ui": "x"}, {"general": []}, {"security": {"auth": 1}}, {"tools": None}, {"model": 3}]
)
def test_settings_of_an_unexpected_shape_are_left_out(odd: dict[str, Any]) -> None:
    assert carried_over(odd) == {}


def test_comments_and_trailing_commas_are_read_and_strings_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('// mine\n{"ui": {"theme": "a // b /* c */ ,}", /* x */ "hideTips": true,},\n}\n// end')
    assert load_settings(path) == {"ui": {"theme": "a // b /* c */ ,}", "hideTips": True}}


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_plain_json_means_the_same_without_comments(value: Any) -> None:
    assert json.loads(strip_comments(json.dumps(value))) == value


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"a": }', b"\xff\xfe{}", b"[" * 100_000, b" " * ((1 << 20) + 1)])
def test_damaged_settings_give_one_line_and_are_not_touched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(HarnessError) as refusal:
        load_settings(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert path.read_bytes() == content


def test_absent_and_empty_settings_are_none_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("  // nothing\n")
    assert load_settings(tmp_path / "absent") == {}
    assert load_settings(tmp_path / "empty") == {}
    assert load_settings(tmp_path / "empty" / "below") == {}


def test_value_at_finds_nothing_through_what_is_no_group() -> None:
    assert value_at({"a": {"b": 1}}, "a.b") == 1
    assert value_at({"a": 1}, "a.b") is None
    assert value_at({}, "a.b") is None
