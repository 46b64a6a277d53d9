"""The dataset card: the README.md that the Hugging Face hub shows, and reads its settings from."""

import yaml

from tasks.ledger import Ledger, as_markdown
from tasks.recipe import Recipe

SIZES = [(10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"),
         (10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"),
         (10**11, "10B<n<100B"), (10**12, "100B<n<1T")]  # fmt: skip

TEXT = """\
# {name}

{documents:,} documents and {tokens:,} tokens from {count} sources, {bytes:,} bytes of text.

Tokens of each source, best-ranked first:

{table}
## How it was made

Near-duplicates were found with MinHash over shingles of {width} {shingle} ({values} values, {bands}
bands of {rows} rows) and clustered by connected components. {scope} {filters}

## What is here

- `<source>/*.parquet`: the documents, with the source's own columns, `doc_id`, `n_tokens`, the
  `cluster_id` of a document with near-duplicates, and what a quality model said.
- `removed/*.parquet`: every document that is not here, with the stage and the reason and, for a
  duplicate, the `kept_doc_id` that was kept for it.
- `clusters/*.parquet`: all near-duplicates, `doc_id` and `cluster_id`.
- `set_aside/*.parquet`: rows that were no documents, with their file, row and fault, if there were any.
- `ledger.parquet`, `ledger.json`: documents, tokens and bytes of each source after each stage.
- `manifest.json`: every file with its SHA-256.
"""
SCOPES = {
    "across": "In a cluster with documents of several sources, those of the best-ranked source stayed "
    "and the others were removed; duplicates inside one source stayed.",
    "global": "One document of each cluster stayed, that of the best-ranked source.",
}


def card(recipe: Recipe, ledger: Ledger) -> str:
    """Write the card of a corpus."""
    counts = ledger.of("publish")
    names = [source for source in ledger.sources if ledger.of("publish", source).documents]
    configs = [{"config_name": name, "data_files": f"{name}/*.parquet"} for name in names]
    head = {
        "pretty_name": recipe.corpus,
        "task_categories": ["text-generation"],
        "size_categories": [next((text for size, text in SIZES if counts.documents < size), "n>1T")],
        "tags": ["pretraining", "deduplicated"],
        "configs": configs,
    }
    dedup = recipe.dedup
    body = TEXT.format(
        name=recipe.corpus,
        count=len(ledger.sources),
        table=as_markdown(ledger),
        width=dedup.width,
        shingle=dedup.shingle,
        values=dedup.values,
        bands=dedup.bands,
        rows=dedup.values // dedup.bands,
        scope=SCOPES[dedup.scope],
        filters=" ".join(filters(recipe)),
        **counts.model_dump(),
    )
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n{body}"


def filters(recipe: Recipe) -> list[str]:
    """Say in sentences which documents the filters kept."""
    found = []
    for source in recipe.sources:
        if source.classify and source.classify.keep:
            labels = ", ".join(source.classify.keep)
            found.append(f"Of {source.name}, documents with the quality label {labels} stayed.")
        if source.keep:
            found.append(f"Of {source.name}, documents with `{source.keep}` stayed.")
    return found
