"""Gemini CLI: how it is started so that its shell is the target's and it has no other tool."""

from reach.harness.gemini.harness import GeminiHarness

__all__ = ["GeminiHarness"]
