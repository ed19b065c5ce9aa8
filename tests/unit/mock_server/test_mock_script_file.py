"""Script files: what is taken, and the one line said about what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mock_server import Script, ScriptError, Turn, load_script, parse_script, script_schema


def test_yaml_and_json_give_the_same_script() -> None:
    in_yaml = "turns:\n- calls:\n  - name: sh\n    args: {n: 1, on: true, list: [a, null]}\n- text: [a, b]\n"
    in_json = json.dumps(
        {
            "turns": [
                {"calls": [{"name": "sh", "args": {"n": 1, "on": True, "list": ["a", None]}}]},
                {"text": ["a", "b"]},
            ]
        },
        indent="\t",
    )
    assert parse_script(in_yaml) == parse_script(in_json)


@pytest.mark.parametrize("word", ["2026-01-31", "yes", "off", "22:30", "010", "0x1f", "1_000", ".nan", "1."])
def test_a_bare_word_that_is_no_json_literal_stays_text(word: str) -> None:
    script = parse_script(f"turns: [{{calls: [{{name: x, args: {{ {word}: {word} }} }}]}}]")
    assert script.turns[0].calls[0].args == {word: word}


@pytest.mark.parametrize(
    ("word", "value"),
    [("true", True), ("null", None), ("~", None), ("-7", -7), ("1.5", 1.5), ("2e3", 2000.0), ("'1'", "1")],
)
def test_json_literals_keep_their_types(word: str, value: object) -> None:
    found = (
        parse_script(f"turns: [{{calls: [{{name: x, args: {{a: {word} }} }}]}}]").turns[0].calls[0].args["a"]
    )
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("turns:\n- txt: hi\n", "s:2: turns[0].txt: there is no such key"),
        ("turns:\n- text: hi\n- text: 3\n", "s:3: turns[1].text: Input should be a valid string"),
        ("turns:\n- {}\n", "s:2: turns[0]: a turn needs text, thought, calls, finish_reason or fault"),
        ("turns:\n- calls:\n  - args: {}\n", "s:3: turns[0].calls[0]: 'name' is missing"),
        ("turns:\n- fault: {kind: flood}\n", "s:2: turns[0].fault: Input tag 'flood' found"),
        ("turns:\n- fault: {status: 500}\n", "s:2: turns[0].fault: 'kind' is missing"),
        (
            "turns:\n- fault:\n    kind: status\n    status: 200\n",
            "s:4: turns[0].fault.status: Input should be",
        ),
        ("turns:\n- fault: {kind: trickle}\n", "s:2: turns[0]: trickle needs something to send"),
        ("turns:\n- text: a\n  text: b\n", "s:3: turns[0].text: the key is there twice"),
        (
            "turns:\n- text: x\n  expect: {text: {matches: '('}}\n",
            "s:3: turns[0].expect.text.matches: no regular",
        ),
        (
            '{"turns": [{"calls": [{"name": "x", "args": {"n": NaN}}]}]}',
            "s:1: turns[0].calls[0].args.n: JSON has no",
        ),
        ("closing: {text: x, fault: {kind: empty}}\n", "s:1: closing can't have a fault"),
        ("turns: [\n", "s:2: neither YAML nor JSON: "),
        ("turns: \x00\n", "s: neither YAML nor JSON: "),
        ('{"turns": [{"text": 1}]}', "s:1: turns[0].text: "),
        ("", "s: a script is a mapping with turns in it"),
        ("- text: hi\n", "s: a script is a mapping with turns in it"),
        pytest.param('{"turns": ' + "[" * 100_000, "s: it is nested too deeply", id="deep-json"),
        pytest.param("turns: " + "[" * 5000, "s: it is nested too deeply", id="deep-yaml"),
        ("hello", "s: a script is a mapping with turns in it"),
    ],
)
def test_a_bad_script_is_one_line_with_file_place_and_reason(text: str, line: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(text, source="s")
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="missing.yaml: No such file"):
        load_script(tmp_path / "missing.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"turns: [{text: \xe4}]")
    with pytest.raises(ScriptError, match=r"latin.yaml: the file is not UTF-8"):
        load_script(tmp_path / "latin.yaml")


def test_the_schema_describes_every_key_of_a_script_and_a_turn() -> None:
    schema = script_schema()
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["properties"]) == set(Script.model_fields)
    assert set(schema["$defs"]["Turn"]["properties"]) == set(Turn.model_fields)
    assert all("description" in value for value in schema["$defs"]["Turn"]["properties"].values())
