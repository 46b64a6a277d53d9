"""Accounts: `ledger` counts documents and tokens through every stage, `published` is the manifest of the result.

`ledger_formats` writes a ledger as Markdown and JSON, and `published_stamps` finds published files that have
changed.
"""
