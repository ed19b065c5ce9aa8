"""What a dialect is: how one model API spells requests, answers and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mock_server.api import ApiRequest, Framing, JsonObject, Reply
from mock_server.reading import Reading
from mock_server.script import Turn


class Dialect(Protocol):
    """One model API. Holds no state: a dialect serves many runs at once."""

    @property
    def name(self) -> str: ...

    @property
    def finish_reasons(self) -> frozenset[str]:
        """The words that a turn's finish_reason may be."""

    def parse(
        self, method: str, path: str, query: Mapping[str, str], body: JsonObject | None
    ) -> ApiRequest | None:
        """The request that this is, or None where the API has no such endpoint."""

    def read(self, body: JsonObject) -> Reading: ...

    def reply(self, turn: Turn, request: ApiRequest) -> Reply:
        """TURN as the answer to REQUEST."""

    def reply_side(self, request: ApiRequest, fixed_text: str | None) -> Reply:
        """The answer to a side question: FIXED_TEXT, or one made up that fits the question."""

    def reply_service(self, request: ApiRequest) -> Reply:
        """The answer to a COUNT or MODELS request."""

    def reply_empty(self, request: ApiRequest) -> Reply:
        """A well-formed answer with nothing in it."""

    def reply_error(
        self,
        status: int,
        message: str,
        *,
        framing: Framing,
        retry_after_s: float | None = None,
        details: Sequence[JsonObject] = (),
    ) -> Reply: ...

    def environment(self, url: str) -> dict[str, str]:
        """The variables that point a harness at the mock, with a stand-in key."""

    @property
    def hint(self) -> str:
        """One line: what a harness needs besides the environment."""


def encode_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
