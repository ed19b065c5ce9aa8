"""The harnesses that reach knows, by name."""

from __future__ import annotations

from reach.errors import ConfigError
from reach.harness.base import Harness
from reach.harness.gemini import GeminiHarness

_HARNESSES: dict[str, Harness] = {harness.name: harness for harness in (GeminiHarness(),)}


def harness_names() -> list[str]:
    return sorted(_HARNESSES)


def get_harness(name: str) -> Harness:
    """Raises: ConfigError, naming those there are."""
    try:
        return _HARNESSES[name]
    except KeyError:
        raise ConfigError(f"no harness named {name!r}", fix=f"reach knows {', '.join(harness_names())}") from None
