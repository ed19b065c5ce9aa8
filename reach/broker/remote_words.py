"""Words of a POSIX shell: quoted, and bash's arguments as far as another shell knows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(rb"[\x01-\x08\x0b-\x1f\x7f]")
_POSIX_LETTERS = frozenset(b"abcefhilmnsuvxC")


def is_name(name: bytes) -> bool:
    """Whether `export` takes NAME."""
    return _NAME.fullmatch(name) is not None


def quote(word: bytes) -> bytes:
    """WORD as one word of a POSIX shell."""
    return b"'" + word.replace(b"'", b"'\\''") + b"'"


def quote_for_terminal(word: bytes) -> bytes:
    """WORD as one word of bash with no control byte but tab and newline: a terminal would act on the others."""
    if not _CONTROL.search(word):
        return quote(word)
    escaped = word.replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    return b"$'" + _CONTROL.sub(lambda found: b"\\%03o" % found[0][0], escaped) + b"'"


def for_posix_shell(argv: Sequence[bytes], command_index: int) -> list[bytes]:
    """bash's ARGV without what sh does not know: long options, shopt's, and letters of bash alone."""
    options: list[bytes] = []
    at = 0
    while at < len(argv) and at != command_index and argv[at][:1] in (b"-", b"+") and len(argv[at]) > 1:
        word = argv[at]
        at += 1
        if word == b"--":
            break
        if word == b"--login":
            options.append(b"-l")
        if word[:2] == b"--":
            continue
        letters = bytes(letter for letter in word[1:] if letter in _POSIX_LETTERS)
        options += [word[:1] + letters] if letters else []
        at += word.count(b"O")
        for _ in range(word.count(b"o")):
            options += [word[:1] + b"o", argv[at]] if argv[at : at + 1] else []
            at += 1
    return [*options, *argv[at:]]
