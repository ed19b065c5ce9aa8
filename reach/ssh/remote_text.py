"""Text that a server sent, made fit for a terminal."""

from __future__ import annotations

import unicodedata

MAX_CHARACTERS = 8192
"""A banner is a page; more than this is not meant to be read."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that move the cursor, reorder what is shown, or show nothing."""


def printable(text: str | bytes, *, lines: bool = False) -> str:
    """Return TEXT with everything that could steer a terminal written out as an escape.

    With LINES, newlines and tabs stay (CRLF becomes a newline); without, the result is one line.
    """
    if isinstance(text, bytes):
        text = text[: MAX_CHARACTERS * 4].decode("utf-8", "replace")
    if lines:
        text = text.replace("\r\n", "\n")
    shown = "".join(c if _is_plain(c, lines) else _escaped(c) for c in text[:MAX_CHARACTERS])
    return shown + " […]" if len(text) > MAX_CHARACTERS else shown


def _is_plain(character: str, lines: bool) -> bool:
    if character in "\n\t":
        return lines
    return unicodedata.category(character) not in _HIDDEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
