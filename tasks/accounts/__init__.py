"""Accounts: `ledger` counts every document and token through every stage, `published` is what came of it."""
