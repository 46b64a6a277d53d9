"""Sources: published datasets as they lie somewhere, file by file and row by row.

`listing` finds a source's files and `register` gives each the number that it keeps for ever. `streams` opens
one, here or in any store, and tells damage from a store that fails; `lines` are what is in it. `reading`
looks into it and reads its `rows`, by one of the `formats` (`footers` guards the process that reads Parquet);
`selection` says which columns are carried, and `columns`, `json_text`, `type_unification` and `column_names` see to
it that what is in them neither changes nor collides. `file_systems`, `web_files`, `hub` and `copies` are where
files lie.
"""
