"""What a worker says of itself in the output of a command: that it began, and what a harness's side file holds.

An I/O-free codec for one stream: output goes in as it comes, what is the command's own comes out. The token cannot be
guessed on the target, so no output of a command is taken for a mark.
"""

from __future__ import annotations

from reach.broker.remote_script import NO_FOLDER, NO_ROOM, SIDE_MARK, STARTED

MAX_HEAD_BYTES = 1 << 16
MAX_SIDE_BYTES = 1 << 16


class Marks:
    """Takes the marks of one command out of the stream that carries them."""

    def __init__(self, token: str, *, expects_side: bool) -> None:
        self._token = token.encode()
        self._head: bytes | None = b""
        """What came before the first mark, which is the start-up files' noise; None from then on."""
        self._opens = SIDE_MARK + self._token + b"=" if expects_side else b""
        self._closes = SIDE_MARK + self._token + b"."
        self._held = b""
        """The end of what came that may be the beginning of the next mark."""
        self._side: bytes | None = None
        """While the side file's content comes."""
        self.started = False
        self.refusal: bytes | None = None
        """NO_FOLDER or NO_ROOM and what the shell said to it: the command did not run."""
        self.side: bytes | None = None
        """What the harness's wrapper wrote to its side file, once all of it is here."""

    @property
    def awaits_side(self) -> bool:
        """Whether a running command's side file may still come."""
        return bool(self._opens) and self.started and self.side is None

    def feed(self, data: bytes) -> bytes:
        """What of DATA, and of what was held back before, is the command's own output."""
        if self.refusal is not None:
            self.refusal = (self.refusal + data)[:MAX_HEAD_BYTES]
            return b""
        if self._head is not None:
            data = self._begin(self._head + data)
        return self._without_side(data) if self._opens else data

    def flush(self) -> bytes:
        """What was held back, when nothing follows any more."""
        held, self._held = self._held, b""
        return held

    def _begin(self, seen: bytes) -> bytes:
        found = seen.find(self._token)
        end = found + len(self._token) + 1
        if found < 0 or len(seen) < end:
            if len(seen) <= MAX_HEAD_BYTES:
                self._head = seen
                return b""
            # no mark will come: let the person see what did, and take it for the command's own
            self._head, self.started = None, True
            return seen
        self._head = None
        mark, rest = seen[end - 1 : end], seen[end:]
        if mark in (NO_FOLDER, NO_ROOM):
            self.refusal = mark + rest
            return b""
        self.started = mark == STARTED
        return rest

    def _without_side(self, data: bytes) -> bytes:
        if self._side is not None:
            return self._end_side(data)
        data = self._held + data
        found = data.find(self._opens)
        if found < 0:
            keep = _overlap(data, self._opens)
            self._held = data[len(data) - keep :]
            return data[: len(data) - keep]
        self._held, self._side = b"", b""
        return data[:found] + self._end_side(data[found + len(self._opens) :])

    def _end_side(self, data: bytes) -> bytes:
        assert self._side is not None  # the caller looked
        self._side += data
        found = self._side.find(self._closes)
        if found < 0 and len(self._side) <= MAX_SIDE_BYTES:
            return b""
        if found < 0:
            found = MAX_SIDE_BYTES
        rest = self._side[found + len(self._closes) :]
        self.side, self._side, self._opens = self._side[:found], None, b""
        return rest


def _overlap(data: bytes, mark: bytes) -> int:
    """How many bytes at the end of DATA may be the beginning of MARK."""
    for size in range(min(len(mark) - 1, len(data)), 0, -1):
        if data.endswith(mark[:size]):
            return size
    return 0
