"""A plain client of the mocked Gemini API: what comes back, byte by byte, and no retry of its own."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MODEL = "gemini-2.5-flash"
STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
ARRAY = f"/v1beta/models/{MODEL}:streamGenerateContent"
PLAIN = f"/v1beta/models/{MODEL}:generateContent"
COUNT = f"/v1beta/models/{MODEL}:countTokens"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[Any]:
        """Of a stream of server-sent events, which must be complete."""
        blocks = self.raw.decode().split("\r\n\r\n")
        assert blocks.pop() == ""
        assert all(block.startswith("data: ") for block in blocks)
        return [json.loads(block.removeprefix("data: ")) for block in blocks]

    @property
    def parts(self) -> list[Any]:
        answers = self.events if self.headers["content-type"].startswith("text/event-stream") else [self.json]
        return [part for answer in answers for part in answer["candidates"][0]["content"].get("parts", [])]


def send(
    url: str,
    path: str = STREAM,
    body: Any = None,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request on a connection of its own. BODY: a JSON value, or bytes to send as they are."""
    connection = connect(url)
    try:
        connection.request(
            method, path, encode(body), {"Content-Type": "application/json", **(headers or {})}
        )
        response = connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, received, response.read())
    finally:
        connection.close()


def connect(url: str) -> http.client.HTTPConnection:
    place = urlsplit(url)
    assert place.hostname is not None
    return http.client.HTTPConnection(place.hostname, place.port, timeout=20)


def encode(body: Any) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


def ask(*texts: str, tools: tuple[str, ...] = ("run_shell_command",), **more: Any) -> dict[str, Any]:
    """A first request with the user's TEXTS."""
    body: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [{"text": text} for text in texts]}],
        **more,
    }
    if tools:
        body["tools"] = [{"functionDeclarations": [{"name": name} for name in tools]}]
    return body


def answer_calls(*responses: tuple[str, dict[str, Any]], ids: tuple[str, ...] = ()) -> dict[str, Any]:
    """A request that follows on a model message and brings back RESPONSES."""
    body = ask("go")
    calls = [{"functionCall": {"name": name, "args": {}}} for name, _ in responses]
    parts: list[dict[str, Any]] = [
        {"functionResponse": {"name": name, "response": response}} for name, response in responses
    ]
    for part, call_id in zip(parts, ids, strict=False):
        part["functionResponse"]["id"] = call_id
    body["contents"] += [{"role": "model", "parts": calls}, {"role": "user", "parts": parts}]
    return body
