"""Lookup: what is asked of a published corpus afterwards.

`explain` says what became of a document, `nearest` finds the documents that are like a text, `published_rows` reads
rows by pyarrow, `report_data` and `cluster_stats` are what the report shows, and `verify_and_clean` compares files
with their digests and deletes what no build needs.
"""
