"""What is printed to."""

from rich.console import Console

PIPE_WIDTH = 120


def console() -> Console:
    """Return a console as wide as the terminal, or wide enough where the output is a file."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=PIPE_WIDTH)
