"""Commands and calls that read a published corpus.

`explain` returns the decisions about a document, `nearest` finds the documents that are similar to a text,
`published_rows` reads rows with pyarrow, `report_data` computes the contents of the report (`document_stats` and
`cluster_stats` count documents and clusters by jobs on the workers),
`samples` and `judgements` serve `zyda look`, and `verify_and_clean` compares files with their digests and deletes
unused files.
"""
