"""What is printed to, and how times are."""

from rich.console import Console

PIPE_WIDTH = 120


def console() -> Console:
    """Return a console as wide as the terminal, or wide enough where the output is a file."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def as_time(seconds: float) -> str:
    """Write a duration as people say it."""
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{round(seconds)} seconds" if round(seconds) > 1 else "1 second"
