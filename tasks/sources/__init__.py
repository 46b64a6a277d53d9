"""Sources: the files of published datasets, and their rows.

`listing` lists the files of a source (`input_files`), and `register` gives each file a permanent number. `streams`
opens a file of any store and distinguishes damaged content from a failing store; `byte_lines` yields its lines.
`reading` inspects a file and reads its rows (`file_rows`) with a module of `formats`; `footers` protects the
process that reads Parquet. `selection` chooses columns; `columns`, `json_columns`, `json_text`, `type_unification`
and `column_names` keep their values unchanged and their names distinct. `file_systems`, `web_files`, `hub` and
`copies` are the places of files.
"""
