"""Accounts: `ledger` counts every document and token through every stage, `published` is what came of it.

`ledger_formats` write a ledger for people, and `published_stamps` say whether what is published is as it was.
"""
