"""What the harness's own requests to the mock give away."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from mock_server import RecordedRequest
from mock_server.api import RequestKind
from reach.harness.base import canary_line

PROOF_VARIABLE = "REACH_PROOF"


@dataclass(frozen=True)
class Tokens:
    """The random texts of one run. None stands in the command, or anywhere on this machine, as it is printed."""

    first: str
    second: str
    proof: str
    """Set in the remote commands of this launch by the broker."""
    nonce: str
    """In the managed home's orientation."""

    @classmethod
    def new(cls) -> Tokens:
        return cls(secrets.token_hex(3), secrets.token_hex(3), secrets.token_hex(12), secrets.token_hex(8))

    @property
    def marker(self) -> str:
        """What a command prints that ran, and that no echo of its text contains."""
        return f"{self.first}-{self.second}"

    @property
    def seam_command(self) -> str:
        """Prints the marker, the machine's name and the proof; free of command substitution, which harnesses refuse."""
        show = f"printf '%s-%s:{{}}' {self.first} {self.second}"
        return "; ".join(
            (
                show.format("ran\\n"),
                show.format("host="),
                "uname -n",
                show.format("proof=%s.\\n") + f' "${PROOF_VARIABLE}"',
            )
        )


@dataclass(frozen=True)
class SeamReport:
    """What the scripted command said of where it ran."""

    ran: bool
    hostname: str | None
    proof_seen: bool


def parse_seam_report(text: str, tokens: Tokens) -> SeamReport:
    """Read TEXT, the result that the harness sent back to the model."""
    marker = re.escape(tokens.marker)
    hostname = re.search(rf"{marker}:host=([^\s\"\\]{{1,255}})", text)
    proof = re.search(rf"{marker}:proof=([0-9a-f]*)\.", text)
    return SeamReport(
        ran=tokens.marker in text,
        hostname=hostname[1] if hostname else None,
        proof_seen=bool(proof and secrets.compare_digest(proof[1], tokens.proof)),
    )


@dataclass(frozen=True)
class Surface:
    """What the model was told and offered."""

    requests: int
    """How many asked the model for something."""
    tools: tuple[str, ...]
    """In the order of their first appearance."""
    canary_seen: bool


def read_surface(requests: Iterable[RecordedRequest], nonce: str) -> Surface:
    tools: dict[str, None] = {}
    count, canary_seen = 0, False
    for request in requests:
        if request.kind is not RequestKind.TURN and request.kind is not RequestKind.SIDE:
            continue
        count += 1
        tools |= dict.fromkeys(request.reading.tool_names)
        canary_seen = canary_seen or canary_line(nonce) in json.dumps(request.body, ensure_ascii=False)
    return Surface(count, tuple(tools), canary_seen)
