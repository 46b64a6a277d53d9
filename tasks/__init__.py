"""The steps of a build, as chapters in the order of a document's way.

`recipe`     what is to be built, and every fault of it before any work
`sources`    a source's files: listed, numbered, opened, and read as tables of rows
`tokens`     exact counts of tokens
`intake`     the files of a source become shards of documents with ids and counts
`documents`  each text by itself: cleaned, measured, and let go by rules
`texts`      what is counted in a text and cleaned in it
`signatures` what may be near-duplicates over all sources: signatures, band keys, shared buckets
`dedup`      which of those are, and who stays: clusters, preference, texts compared
`others`     published corpora against which this one is deduplicated, and which stay as they are
`quality`    what a model says of a document, and which documents a source keeps
`publish`    the corpus and its card, and what became of each document

They stand on

`storage`    folders, records and tables on any disk or object store, whole or not there
`stage`      what makes a function a stage: its task, its cache, its jobs on shards, its verdicts
`workers`    the cluster on which that work is done
`accounts`   the ledger of every document and token, and the manifest of what is published
`kernels`    the compiled arithmetic, which knows nothing of all this

and `pipeline` says in which order the stages run. A chapter imports only what stands below it.
"""
