"""Storage: write files atomically, and check their content when they are read.

`folder` is a folder on any disk or object store (`stores`, `failures`, `scratch`, `stamps`). `records` are small
sealed JSON files, and `tables` are Parquet files with checksums. `artifacts` are the records of stages, `finished`
finds their results in a later run, and `facts` are the values in their manifests. `forgetting` removes damaged
artifacts so that they are rebuilt, and `documents` has the columns that every document has.
"""
