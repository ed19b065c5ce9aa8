"""`.env` files, read the way the dotenv package reads them: enough to know their names and usual values."""

from __future__ import annotations

import re
from pathlib import Path

MAX_DOTENV_BYTES = 1 << 20

_LINE = re.compile(
    r"""^\s*(?:export\s+)?(?P<name>[\w.-]+)(?:\s*=\s*?|:\s+?)
        (?P<value>\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^\#\r\n]+)?
        [^\S\n]*(?:\#[^\n]*)?$""",
    re.MULTILINE | re.VERBOSE,
)


def load_dotenv(path: Path) -> dict[str, str]:
    """The variables that PATH sets; nothing where it can't be read."""
    try:
        with path.open("rb") as file:
            return parse_dotenv(file.read(MAX_DOTENV_BYTES).decode(errors="surrogateescape"))
    except OSError:
        return {}


def parse_dotenv(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _LINE.finditer(text.replace("\r\n", "\n").replace("\r", "\n")):
        value = (match["value"] or "").strip()
        quote = value[:1]
        if quote in ("'", '"', "`") and len(value) > 1 and value.endswith(quote):
            value = value[1:-1]
        if quote == '"':
            value = value.replace("\\n", "\n").replace("\\r", "\r")
        found[match["name"]] = value
    return found
