"""The fixture of the tests of the live page."""

from live_pages import state  # noqa: F401 (a fixture)
