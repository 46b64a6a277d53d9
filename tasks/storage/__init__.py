"""Storage: what is written appears whole or not at all, and what is read is what was written.

`folder` is a place on any disk or store (`stores`, `failures`, `scratch`, `stamps`); `records` are small sealed
JSON files and `tables` Parquet files with checksums. `artifacts` is how stages leave their work and find it again,
`facts` what they say in it, `forgetting` how what is damaged is made again, and `documents` the columns that every
document has.
"""
