"""Run a coding agent here while every shell command it runs executes on another machine, over SSH."""

__version__ = "0.1.0"
"""Written here, and read from here by the build: asking for the installed one takes 30 ms at every launch."""
