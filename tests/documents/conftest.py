"""The fixture of the tests of document steps."""

from raw_corpus import raw  # noqa: F401 (a fixture)
