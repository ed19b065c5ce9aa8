"""The model APIs that can be mocked, by name."""

from __future__ import annotations

from mock_server.dialects.base import Dialect
from mock_server.dialects.gemini import GeminiDialect

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (GeminiDialect(),)}
"""To add one: a module beside this with a class of the Protocol's shape, and its instance here."""

__all__ = ["DIALECTS", "Dialect"]
