"""Look into the removed documents of a published corpus.

python examples/why_removed.py demo/demo/published
"""

import sys
from pathlib import Path

import polars as pl


def main(published: Path) -> None:
    """Print what was removed for each reason, and the near-duplicates that were least like what was kept."""
    # Sources with other rules, judges or labels have other columns of evidence and scores.
    files = published / "removed/*/*.parquet"
    removed = pl.scan_parquet(files, missing_columns="insert", extra_columns="ignore")
    print(
        removed.group_by("source", "stage", "reason")
        .agg(documents=pl.len(), tokens=pl.sum("n_tokens"))
        .sort("tokens", descending=True)
        .collect()
    )
    audit = pl.scan_parquet(published / "audit/*.parquet")
    print(audit.select("doc_id", "kept_doc_id", "jaccard", "containment").sort("jaccard").head(5).collect())
    print("zyda explain RECIPE DOC_ID says of any of these what became of it, and shows both texts.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
