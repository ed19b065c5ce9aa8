"""The HTTP side: takes a request, has it answered by the player, records it, sends the answer."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from mock_server.api import ApiRequest, Framing
from mock_server.delivery import deliver
from mock_server.dialects import Dialect
from mock_server.player import Answer, Player
from mock_server.reading import Reading
from mock_server.recorder import (
    AnswerSource,
    RecordedRequest,
    Recorder,
    without_secret_query,
    without_secrets,
)

MAX_BODY_BYTES = 256 << 20
"""Harnesses send the whole conversation each time."""


class MockApp:
    """One run of the mock; lives in one event loop."""

    def __init__(self, dialect: Dialect, player: Player, recorder: Recorder) -> None:
        self._dialect = dialect
        self._player = player
        self._recorder = recorder
        self._count = 0
        self.ending = asyncio.Event()
        """Set it before closing the server: stalled answers then end."""

    def build(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body, is_json = _parse_body(await request.read())
        given = body if isinstance(body, dict) else None
        api_request = self._dialect.parse(request.method, request.path, request.query, given)
        reading = self._dialect.read(given or {})
        answer = self._answer(request, api_request, reading, is_json and (given is not None or body is None))
        self._count += 1
        record = RecordedRequest(
            number=self._count,
            at=datetime.now(UTC),
            method=request.method,
            path=without_secret_query(request.raw_path),
            headers=without_secrets(request.headers),
            body=body,
            kind=api_request.kind if api_request else None,
            model=api_request.model if api_request else "",
            answer=answer.source,
            turn_number=answer.turn_number,
            note=answer.note,
            status=answer.reply.status,
            failures=answer.failures,
            reading=reading,
        )
        self._recorder.add(record, answer.reply, answer.delivery)
        return await deliver(request, answer.reply, answer.delivery, self.ending)

    def _answer(
        self, request: web.Request, api_request: ApiRequest | None, reading: Reading, is_object: bool
    ) -> Answer:
        if api_request is None:
            return self._refusal(404, f"the mock has no {request.method} {request.path}", Framing.JSON)
        if request.method == "POST" and not (is_object and request.body_exists):
            return self._refusal(400, "the body is no JSON object", api_request.framing)
        return self._player.answer(api_request, reading)

    def _refusal(self, status: int, message: str, framing: Framing) -> Answer:
        reply = self._dialect.reply_error(status, message, framing=framing)
        return Answer(reply, AnswerSource.REFUSED, note=message)


def _parse_body(raw: bytes) -> tuple[Any, bool]:
    """The body as JSON, or as text where it is none; and whether it is JSON."""
    if not raw:
        return None, True
    try:
        return json.loads(raw), True
    except (ValueError, RecursionError):
        return raw.decode("utf-8", "replace"), False
