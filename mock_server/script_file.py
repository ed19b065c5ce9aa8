"""Scripts as files: YAML or JSON, and one clear line for what is wrong in one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from mock_server.dialects.base import Dialect
from mock_server.script import Script

Place = tuple[str | int, ...]


class ScriptError(Exception):
    """A script that can't be used: file, place in it, what is wrong, in one line."""

    def __init__(
        self, reason: str, *, source: str = "script", place: Place = (), line: int | None = None
    ) -> None:
        self.reason = reason
        self.place = spell_place(place)
        self.line = line
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {self.place}: {reason}" if place else f"{where}: {reason}")


class _Loader(yaml.SafeLoader):
    """YAML whose bare words are JSON's literals or text: `yes`, `22:30`, `010` and `2026-01-31` are text."""

    yaml_implicit_resolvers = {}


for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("null", r"~|null|", ["~", "n", ""]),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?=[.eE])(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first))


def load_script(path: Path) -> Script:
    """Raises: ScriptError, also for a file that can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptError(error.strerror or str(error), source=str(path)) from None
    except UnicodeDecodeError:
        raise ScriptError("the file is not UTF-8", source=str(path)) from None
    return parse_script(text, source=str(path))


def parse_script(text: str, *, source: str = "script") -> Script:
    """Read a script from YAML or JSON TEXT.

    Raises: ScriptError; SOURCE is what it calls the text.
    """
    try:
        value, node = _parse_text(text, source)
    except RecursionError:
        raise ScriptError("it is nested too deeply", source=source) from None
    if not isinstance(value, dict):
        raise ScriptError("a script is a mapping with turns in it", source=source)
    try:
        return Script.model_validate(value)
    except ValidationError as error:
        first = min(error.errors(), key=lambda item: item["type"] == "missing")
        place = _real_place(first["loc"], value)
        line = _line_of(place, node)
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ScriptError(_reason(first) + more, source=source, place=place, line=line) from None


def check_script(script: Script, dialect: Dialect, *, source: str = "script") -> None:
    """Raises: ScriptError where SCRIPT asks for what DIALECT does not have."""
    if script.dialect is not None and script.dialect != dialect.name:
        reason = f"the script is for {script.dialect!r}, the mock speaks {dialect.name!r}"
        raise ScriptError(reason, source=source, place=("dialect",))
    turns = [(("turns", index), turn) for index, turn in enumerate(script.turns)]
    for place, turn in [*turns, (("closing",), script.closing)]:
        if turn.finish_reason is not None and turn.finish_reason not in dialect.finish_reasons:
            known = ", ".join(sorted(dialect.finish_reasons))
            reason = f"{turn.finish_reason!r} is none of {dialect.name}'s: {known}"
            raise ScriptError(reason, source=source, place=(*place, "finish_reason"))


def spell_place(place: Place) -> str:
    """As one would write it: turns[2].calls[0].name, lists counted from 0."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _parse_text(text: str, source: str) -> tuple[Any, yaml.Node | None]:
    try:
        # JSON may hold what YAML refuses, such as tabs for indentation.
        value = json.loads(text)
    except ValueError:
        value = None
    try:
        node = yaml.compose(text, Loader=_Loader)
        for place, key_line in _repeated_keys(node, ()):
            raise ScriptError("the key is there twice", source=source, place=place, line=key_line)
        return (yaml.load(text, Loader=_Loader) if value is None else value), node
    except yaml.MarkedYAMLError as error:
        if value is not None:
            return value, None
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ScriptError(
            f"neither YAML nor JSON: {error.problem or error.context}", source=source, line=line
        ) from None
    except yaml.YAMLError as error:
        raise ScriptError(f"neither YAML nor JSON: {' '.join(str(error).split())}", source=source) from None


def _repeated_keys(
    node: yaml.Node | None, place: Place, seen: frozenset[int] = frozenset()
) -> Iterator[tuple[Place, int]]:
    """Keys that a mapping has twice: YAML's reader would take the last one without a word."""
    if node is None or id(node) in seen:
        return
    seen = seen | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated_keys(item, (*place, index), seen)
    elif isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for name, item in node.value:
            here = (*place, str(name.value))
            if here[-1] in names:
                yield here, name.start_mark.line + 1
            names.add(str(here[-1]))
            yield from _repeated_keys(item, here, seen)


def _real_place(location: tuple[str | int, ...], value: Any) -> Place:
    """LOCATION without what pydantic adds for itself (names of union members), as far as VALUE goes."""
    place: list[str | int] = []
    for part in location:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            continue
        place.append(part)
    return tuple(place)


def _line_of(place: Place, node: yaml.Node | None) -> int | None:
    """The line on which PLACE begins, or the one of the nearest thing around it."""
    line: int | None = node.start_mark.line + 1 if node else None
    for part in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            found = next(((key, item) for key, item in node.value if key.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
    return line


def _reason(error: Any) -> str:
    kind, location = error["type"], error["loc"]
    if kind == "missing":
        return f"{location[-1]!r} is missing"
    if kind == "extra_forbidden":
        return "there is no such key"
    if kind == "union_tag_not_found":
        return "'kind' is missing"
    return str(error["msg"]).removeprefix("Value error, ")
