"""The fixtures of the tests of commands."""

from command_here import log_of_prefect, zyda  # noqa: F401 (fixtures)
