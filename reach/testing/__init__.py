"""What reach's pytest fixtures are made of, for test suites of anybody's; the names below are for annotations.

Light to import: the plugin is loaded by every pytest of an environment that reach is installed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reach.testing.mock_gemini import MockGemini
    from reach.testing.session import Finished, LiveSession, Result
    from reach.testing.target import LiveTarget

__all__ = ["Finished", "LiveSession", "LiveTarget", "MockGemini", "Result"]

_MODULES = {
    "Finished": "session",
    "LiveSession": "session",
    "LiveTarget": "target",
    "MockGemini": "mock_gemini",
    "Result": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
