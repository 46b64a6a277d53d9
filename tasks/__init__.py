"""The steps of a build, as chapters in the order of a document's way.

`recipe`     what is to be built, and every fault of it before any work
`planning`   what there is to build, checked before any work, and what has changed since the last build
`sources`    a source's files: listed, numbered, opened, and read as tables of rows
`tokens`     token ids, and exact counts of them
`ingest`     the files of a source become shards of documents with ids and counts
`documents`  each text by itself: cleaned, measured, and removed by rules
`signatures` what may be near-duplicates over all sources: signatures, band keys, shared buckets
`dedup`      which of those are, and which stay: clusters, preference, texts compared, reference corpora
`quality`    what a model says of a document, and which documents a source keeps
`publish`    the published folder: documents, removed documents, card
`lookup`     what is asked of it afterwards: explanations, nearest documents, the report's figures
`forecast`   what a build will take, from a trial of it
`mixing`     from published corpora to the files of a training run, and back from a position to a document

They stand on

`storage`    folders, records and tables on any disk or object store, whole or not there
`stage`      what makes a function a stage: its task, its cache, its jobs on shards, its verdicts
`workers`    the cluster on which that work is done
`corpus`     a published corpus, opened by a URL or its recipe: manifest, files, documents by id
`accounts`   the ledger of every document and token, and the manifest of what is published
`gpu`        signatures, edges and forests on GPUs

and `pipeline` says in which order the stages run, and `running` runs them. A chapter imports only
what stands below it. The compiled arithmetic is a library of its own, `textkernels`; docs/map.md has every module.
"""
