"""The Gemini API, as the Gemini CLI speaks it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mock_server.api import ApiRequest, Event, Framing, JsonObject, Reply, RequestKind
from mock_server.dialects.base import encode_json
from mock_server.dialects.sample import sample
from mock_server.reading import FunctionResponse, Reading, objects_in, string_at
from mock_server.script import Turn

_METHOD_PATH = re.compile(r"/v1(?:alpha|beta1?)?/(?:.+/)?models/(?P<model>[^/:]+):(?P<method>\w+)")
_MODELS_PATH = re.compile(r"/v1(?:alpha|beta1?)?/models(?:/(?P<model>[^/:]+))?")
_LISTED_MODELS = ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite")
_CHARS_PER_TOKEN = 4
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiDialect:
    """`models/MODEL:streamGenerateContent`, `:generateContent`, `:countTokens` and the list of models."""

    name = "gemini"
    finish_reasons = frozenset(
        """FINISH_REASON_UNSPECIFIED STOP MAX_TOKENS SAFETY RECITATION LANGUAGE OTHER BLOCKLIST SPII
        PROHIBITED_CONTENT MALFORMED_FUNCTION_CALL IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_OTHER
        IMAGE_RECITATION NO_IMAGE UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS
        MISSING_THOUGHT_SIGNATURE MALFORMED_RESPONSE""".split()
    )
    """Source: the Gemini API's Candidate.FinishReason."""

    hint = (
        'the Gemini CLI also needs {"security": {"auth": {"selectedType": "gemini-api-key"}}}'
        " in .gemini/settings.json"
    )

    def parse(
        self, method: str, path: str, query: Mapping[str, str], body: JsonObject | None
    ) -> ApiRequest | None:
        if method == "GET" and (match := _MODELS_PATH.fullmatch(path)):
            return ApiRequest(RequestKind.MODELS, match["model"] or "", Framing.JSON, {})
        match = _METHOD_PATH.fullmatch(path)
        if method != "POST" or not match:
            return None
        body = body or {}
        if match["method"] == "countTokens":
            return ApiRequest(RequestKind.COUNT, match["model"], Framing.JSON, body)
        if match["method"] not in ("generateContent", "streamGenerateContent"):
            return None
        framing = Framing.JSON
        if match["method"] == "streamGenerateContent":
            framing = Framing.SSE if query.get("alt") == "sse" else Framing.JSON_ARRAY
        has_tools = any(True for _ in _declarations(body))
        kind = RequestKind.SIDE if _wants_json(body) and not has_tools else RequestKind.TURN
        return ApiRequest(kind, match["model"], framing, body, has_tools)

    def read(self, body: JsonObject) -> Reading:
        responses: list[FunctionResponse] = []
        new: list[FunctionResponse] = []
        user: list[str] = []
        model: list[str] = []
        for content in objects_in(body.get("contents")):
            is_model = content.get("role") == "model"
            new = [] if is_model else new
            for part in objects_in(content.get("parts")):
                text = string_at(part, "text")
                if text is not None and not part.get("thought"):
                    (model if is_model else user).append(text)
                if isinstance(part.get("functionResponse"), dict) and not is_model:
                    new.append(_function_response(part["functionResponse"]))
                    responses.append(new[-1])
        return Reading(
            tool_names=tuple(string_at(item, "name") or "" for item in _declarations(body)),
            function_responses=tuple(responses),
            new_function_responses=tuple(new),
            system_text="\n".join(_texts(body.get("systemInstruction", body.get("system_instruction")))),
            user_text="\n".join(user),
            model_text="\n".join(model),
        )

    def reply(self, turn: Turn, request: ApiRequest) -> Reply:
        pieces = [[{"text": text, "thought": True}] for text in turn.thoughts]
        pieces += [[{"text": text}] for text in turn.texts]
        if turn.calls:
            pieces.append(
                [{"functionCall": _function_call(call.name, call.args, call.id)} for call in turn.calls]
            )
        pieces = pieces or [[]]
        if request.framing is Framing.JSON:
            pieces = [[part for piece in pieces for part in piece]]
        reason = turn.finish_reason or "STOP"
        answers = [
            _answer(piece, request, reason if index == len(pieces) - 1 else None)
            for index, piece in enumerate(pieces)
        ]
        answers[-1]["usageMetadata"] = _usage(turn, request)
        return Reply(framing=request.framing, events=tuple(Event(data=encode_json(a)) for a in answers))

    def reply_side(self, request: ApiRequest, fixed_text: str | None) -> Reply:
        config = _config(request.body)
        schema = next((config[key] for key in _SCHEMA_KEYS if key in config), {"type": "object"})
        made_up = encode_json(sample(schema)) if _wants_json(request.body) else "mock"
        return self.reply(Turn(text=made_up if fixed_text is None else fixed_text), request)

    def reply_service(self, request: ApiRequest) -> Reply:
        if request.kind is RequestKind.COUNT:
            value: JsonObject = {"totalTokens": _count_tokens(request.body)}
        elif request.model:
            value = _model(request.model)
        else:
            value = {"models": [_model(name) for name in _LISTED_MODELS]}
        return Reply(events=(Event(data=encode_json(value)),))

    def reply_empty(self, request: ApiRequest) -> Reply:
        answer = _answer([], request, "STOP")
        return Reply(framing=request.framing, events=(Event(data=encode_json(answer)),))

    def reply_error(
        self,
        status: int,
        message: str,
        *,
        framing: Framing,
        retry_after_s: float | None = None,
        details: Sequence[JsonObject] = (),
    ) -> Reply:
        error: JsonObject = {"code": status, "message": message}
        error["status"] = _STATUS_NAMES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
        shown = list(details)
        if retry_after_s is not None:
            shown.append({"@type": _RETRY_INFO, "retryDelay": f"{retry_after_s:g}s"})
        if shown:
            error["details"] = shown
        # Errors of a stream asked for with alt=sse come as a plain object, others of a stream in an array.
        framing = Framing.JSON_ARRAY if framing is Framing.JSON_ARRAY else Framing.JSON
        return Reply(status=status, framing=framing, events=(Event(data=encode_json({"error": error})),))

    def environment(self, url: str) -> dict[str, str]:
        return {"GEMINI_API_KEY": "mock", "GOOGLE_GEMINI_BASE_URL": url}


_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_SCHEMA_KEYS = ("responseJsonSchema", "responseSchema", "response_json_schema", "response_schema")


def _config(body: JsonObject) -> JsonObject:
    config = body.get("generationConfig", body.get("generation_config"))
    return config if isinstance(config, dict) else {}


def _wants_json(body: JsonObject) -> bool:
    config = _config(body)
    mime_type = config.get("responseMimeType", config.get("response_mime_type"))
    return mime_type == "application/json" or any(key in config for key in _SCHEMA_KEYS)


def _declarations(body: JsonObject) -> list[JsonObject]:
    return [
        declaration
        for tool in objects_in(body.get("tools"))
        for key in ("functionDeclarations", "function_declarations")
        for declaration in objects_in(tool.get(key))
    ]


def _texts(content: Any) -> list[str]:
    """The texts in a content, which may also be a bare string."""
    if isinstance(content, str):
        return [content]
    parts = content.get("parts") if isinstance(content, dict) else None
    return [text for part in objects_in(parts) if (text := string_at(part, "text")) is not None]


def _function_response(value: JsonObject) -> FunctionResponse:
    response = value.get("response")
    return FunctionResponse(
        string_at(value, "name") or "", string_at(value, "id"), response if isinstance(response, dict) else {}
    )


def _function_call(name: str, args: JsonObject, call_id: str | None) -> JsonObject:
    call: JsonObject = {"name": name, "args": args}
    return call if call_id is None else {"id": call_id, **call}


def _answer(parts: list[JsonObject], request: ApiRequest, finish_reason: str | None) -> JsonObject:
    content: JsonObject = {"role": "model", "parts": parts} if parts else {"role": "model"}
    candidate: JsonObject = {"content": content, "index": 0}
    if finish_reason is not None:
        candidate["finishReason"] = finish_reason
    return {"candidates": [candidate], "modelVersion": request.model, "responseId": "mock"}


def _usage(turn: Turn, request: ApiRequest) -> JsonObject:
    given = turn.usage.model_dump(exclude_none=True) if turn.usage else {}
    said = "".join(turn.texts) + encode_json([call.args for call in turn.calls])
    prompt = given.get("prompt_tokens", _count_tokens(request.body))
    output = given.get("output_tokens", _tokens(said))
    thoughts = given.get("thought_tokens", _tokens("".join(turn.thoughts)) if turn.thoughts else 0)
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": output}
    usage["totalTokenCount"] = prompt + output + thoughts
    if thoughts:
        usage["thoughtsTokenCount"] = thoughts
    if "cached_tokens" in given:
        usage["cachedContentTokenCount"] = given["cached_tokens"]
    return usage


def _count_tokens(body: JsonObject) -> int:
    return _tokens(encode_json(body))


def _tokens(text: str) -> int:
    return len(text) // _CHARS_PER_TOKEN + 1


def _model(name: str) -> JsonObject:
    methods = ["generateContent", "countTokens"]
    limits = {"inputTokenLimit": 1 << 20, "outputTokenLimit": 1 << 16}
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods, **limits}
