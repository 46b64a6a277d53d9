"""The text of the dataset card, with fields for its figures and tables."""

SIZES = [(10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"),
         (10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"),
         (10**11, "10B<n<100B"), (10**12, "100B<n<1T")]  # fmt: skip


TEXT = """\
# {name}

{documents:,} documents and {tokens:,} tokens from {count}, {bytes:,} bytes of text. Tokens are
counted by the tokenizer `{tokenizer}` (SHA-256 begins {tokenizer_digest}). Special tokens in texts
are counted as {special_as}.

Tokens of each source, best-ranked first:

{table}
{components}## How it was made

{rounds} {filters}

{judges}{removed}

{by_reason}{joins}{licenses}{languages}{buckets}{vectors}{cut}{cleaned}{special_tokens}{skipped}{certificate}{audit}

{overlaps}## Sources

{origins}
`sources.parquet` lists the files with their versions. {software} built the corpus from this recipe:

```yaml
{recipe}```

## Files

`datasets.load_dataset(<this folder>)` loads the documents of all sources, with `doc_id`, `source`, `text` and
`n_tokens`. With the name of a source, or of a subfolder of a source (`source-folder`), it loads these documents
with all columns; with `clusters` the clusters; with `passages` the repeated
passages; with `removed` the removed documents.

- `<source>/*.parquet`: the documents, with the columns of the source, `doc_id`, `source`, `n_tokens`, the
  `cluster_id` (for a document without near-duplicates its `doc_id`), and the answers of a quality model.
- `removed/*/*.parquet`: the removed documents, with the stage and the reason. A removed duplicate has the
  `kept_doc_id` of the kept document, or the `matched_doc_id` of the document in another corpus.
- `clusters/*.parquet`: all near-duplicates, `doc_id` and `cluster_id`.
- `pairs/*.parquet`, `contradictions/*.parquet`: similar documents with the cosines of their vectors and the facts
  that differ, and the pairs that contradict each other, if a deduplication round is semantic.
- `passages/*/*.parquet`: the repeated passages, if the recipe has `passages`: document, first and last character
  before anything was cut, and the document that owns them.
- `audit/*.parquet`: a sample of the removed near-duplicates, each with the most similar kept document and the
  similarities.
- `overlap/*.parquet`: the documents of each source that are removed if the source is deduplicated alone (`own`) or
  with all other sources (`global`), and the removed documents, by the source of the kept document.
- `agreement/*.parquet`: how much the scores of the documents of a cluster differ, by the size of clusters, with the
  cluster in which they differ most, if scores were compared.
- `bands/*/*.parquet`: the MinHash band keys of all documents, sorted, for finding near-duplicates of them;
  `manifest.json` has their parameters.
- `vectors/*/*/*.parquet`: the vectors of kept documents by judge and source, if the recipe has `publish_vectors`: a
  vector is about `scale` times the numbers of `vector`. A document that the judge did not judge has no row.
- `contamination/*.parquet`: the evaluation sets of decontamination, if there are any.
- `set_aside/*/*.parquet`: rows that are no documents, with file, row and reason, if there are any; with
  `publish_set_aside` in the recipe also their content.
- `ledger.parquet`, `ledger.json`: documents, tokens and bytes of each source after each stage;
  `reasons.parquet`: removed documents by stage, source and reason; `cleaned.parquet`: the changes of each cleaning,
  if there are any; `skipped.parquet`: records of files that are no documents, if there are any;
  `special_tokens.parquet`: special tokens of the tokenizer that texts contain as characters, by documents and
  occurrences, before any rule removed documents, if there are any;
  `judges.parquet`: documents that each judge judged, did not judge, and removed, if the recipe has models.
- `components.parquet`: the documents of each component by stage and reason of removal, null for kept documents, if
  the recipe names components.
- `licenses.parquet`: the documents of each licence, if the recipe filters by licence;
  `languages.parquet`: the documents of each language, if languages were identified;
  `buckets.parquet`: the documents of each bucket of scores, if the recipe has `bucket`.
- `sources.parquet`: the files of the sources; `source_number` and `file_number` are the first {bits[0]} and the
  next {bits[1]} bits of a `doc_id`, whose last {bits[2]} bits are the row in the file.
- `files-*.parquet`: all files with their SHA-256.
- `manifest.json`: the recipe, the ledger and other counts, and the SHA-256 of the accounts.
"""


REFERENCE_SENTENCE = (
    "Before that, documents near a document of another published corpus were removed: {names}."
)
