"""What a turn expects of the request that it answers, and the check of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from mock_server.reading import FunctionResponse, Reading

MAX_QUOTED_CHARS = 200
"""Of a text that fails a check; the record has all of it."""


def _compiled(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return pattern


Texts = str | list[str]
Pattern = Annotated[str, AfterValidator(_compiled)]


class _Expectation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TextCheck(_Expectation):
    """Checks on a text; all of those given must hold."""

    contains: Texts = []
    """A text, or several, that must all occur."""
    excludes: Texts = []
    """A text, or several, of which none may occur."""
    matches: Pattern | None = None
    """A Python regular expression that must be found somewhere in it; `.` matches newlines too."""

    def problems(self, text: str) -> Iterator[str]:
        for wanted in _as_list(self.contains):
            if wanted not in text:
                yield f"does not contain {wanted!r}"
        for unwanted in _as_list(self.excludes):
            if unwanted in text:
                yield f"contains {unwanted!r}"
        if self.matches is not None and not re.search(self.matches, text, re.DOTALL):
            yield f"does not match /{self.matches}/"


class ResponseCheck(TextCheck):
    """A function response that must be among those new in the request."""

    tool: str
    """The name of the tool that answers."""
    id: str | None = None
    """The id of the call that is answered, where two calls went to the same tool."""
    equals: str | dict[str, Any] | None = None
    """A string: the tool's whole output or error. An object: the whole response."""

    def response_problems(self, response: FunctionResponse) -> list[str]:
        found = list(self.problems(response.text))
        actual = response.response if isinstance(self.equals, dict) else response.text
        if self.equals is not None and actual != self.equals:
            found.append(f"does not equal {self.equals!r}")
        return found


class ToolsCheck(_Expectation):
    """Checks on the tools that the request advertises."""

    equals: list[str] | None = None
    """Exactly these, in any order."""
    within: list[str] | None = None
    """None but these."""
    include: list[str] = []
    """At least these."""
    exclude: list[str] = []
    """None of these."""

    def problems(self, names: Iterable[str]) -> Iterator[str]:
        on_offer = set(names)
        allowed = self.within if self.equals is None else self.equals
        missing = {*(self.equals or ()), *self.include} - on_offer
        surplus = (on_offer - set(allowed) if allowed is not None else set()) | (on_offer & set(self.exclude))
        if missing:
            yield f"tools not advertised: {', '.join(sorted(missing))}"
        if surplus:
            yield f"tools advertised that should not be: {', '.join(sorted(surplus))}"


class Expectation(_Expectation):
    """What a request must hold; every part given is checked."""

    responses: list[ResponseCheck] = []
    """Each must be met by one function response that is new in the request."""
    response_count: int | None = Field(None, ge=0)
    """How many new function responses there are, of all tools together."""
    tools: ToolsCheck | None = None
    text: TextCheck | None = None
    """On all the text of the user's side."""
    system: TextCheck | None = None
    """On the system instruction."""

    @model_validator(mode="after")
    def _has_something(self) -> Expectation:
        if not self.model_fields_set:
            raise ValueError("expect is empty")
        return self

    def problems(self, reading: Reading) -> list[str]:
        """One line for each thing in READING that is not as expected."""
        found: list[str] = []
        new = reading.new_function_responses
        if self.response_count is not None and len(new) != self.response_count:
            found.append(f"{len(new)} new function responses, not {self.response_count}")
        for check in self.responses:
            found.extend(_response_problems(check, new))
        if self.tools is not None:
            found.extend(self.tools.problems(reading.tool_names))
        for name, text_check, text in (
            ("the user's text", self.text, reading.user_text),
            ("the system instruction", self.system, reading.system_text),
        ):
            if text_check is not None:
                found.extend(f"{name} {problem}: {_quoted(text)}" for problem in text_check.problems(text))
        return found


def _response_problems(check: ResponseCheck, responses: Iterable[FunctionResponse]) -> list[str]:
    """Empty where one of RESPONSES meets CHECK, else why each of them doesn't."""
    subject = f"response of {check.tool}" + (f" (id {check.id})" if check.id is not None else "")
    found: list[str] = []
    for response in responses:
        if response.name != check.tool or (check.id is not None and response.id != check.id):
            continue
        problems = check.response_problems(response)
        if not problems:
            return []
        found.extend(f"{subject} {problem}: {_quoted(response.text)}" for problem in problems)
    return found or [f"no {subject} came back"]


def _quoted(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…")


def _as_list(value: Texts) -> list[str]:
    return [value] if isinstance(value, str) else value
