"""reach's command line. Each command's module is imported when the command is used."""

from reach.cli.main import main

__all__ = ["main"]
