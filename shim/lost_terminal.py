"""A terminal that a broker left raw when it went away. Off the usual path."""

import posix
import termios


def make_usable() -> None:
    """Give the terminal on descriptor 0 back its lines, echo and signals, where it lacks them."""
    if not posix.isatty(0):
        return
    try:
        modes = termios.tcgetattr(0)
        if modes[3] & termios.ICANON:
            return
        modes[0] |= termios.ICRNL | termios.IXON | termios.BRKINT
        modes[1] |= termios.OPOST
        modes[3] |= termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
        termios.tcsetattr(0, termios.TCSANOW, modes)
    except termios.error:
        pass  # hung up
