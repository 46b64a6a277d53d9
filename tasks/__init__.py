"""The steps of a build, in chapters that follow the order in which a document passes through them.

`recipe`     the description of a build, and the check of all its fields before any work
`planning`   the files to build, checked before any work, and the changes since the last build
`sources`    a source's files: listed, numbered, opened, and read as tables of rows
`tokens`     token ids, and exact counts of them
`ingest`     divides the files of a source into shards of documents with ids and counts
`documents`  steps for single texts: cleaning, measures, and removal by rules
`signatures` candidates for near-duplicates in all sources: signatures, band keys, shared buckets
`dedup`      confirmed near-duplicates and the kept documents: clusters, preference, comparison, reference corpora
`semantic`   documents with the same content in other words: proposed and confirmed by the vectors of models
`labels`     columns from outside: labels that others published, found for each document
`quality`    the judgement of a model about a document, and the documents that a source keeps
`passages`   passages that several documents share, and what is cut of them
`publish`    the published folder: documents, removed documents, card
`lookup`     queries of a published corpus: explanations, nearest documents, the report's figures
`forecast`   the estimated cost of a build, from a trial
`mixing`     from published corpora to the files of a training run, and from a position to its document
`ablation`   small models that compare corpora: documents, trainings, measures, records

These chapters use

`storage`    folders, records and tables on any disk or object store, written atomically
`stage`      the parts of a stage: its task, its cache, its jobs on shards, its verdicts
`workers`    the cluster that runs the jobs
`corpus`     a published corpus, opened by a URL or its recipe: manifest, files, documents by id
`accounts`   the ledger of all documents and tokens, and the manifest of a published corpus
`gpu`        signatures, edges and forests on GPUs

`pipeline` defines the order of the stages, and `running` runs them. A chapter imports only chapters below it. The
compiled arithmetic is a separate library, `textkernels`; docs/map.md lists every module.
"""
