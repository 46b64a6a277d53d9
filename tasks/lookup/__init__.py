"""Commands and calls that read a published corpus.

`explain` returns the decisions about a document, `nearest` finds the documents that are similar to a text,
`published_rows` reads rows with pyarrow, `report_data` and `cluster_stats` compute the contents of the report,
`samples` and `judgements` serve `zyda look`, and `verify_and_clean` compares files with their digests and deletes
unused files.
"""
