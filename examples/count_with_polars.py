"""Ask the Parquet files of a published corpus with polars.

python examples/count_with_polars.py demo/demo/published
"""

import json
import sys
from pathlib import Path

import polars as pl


def main(published: Path) -> None:
    """Print tokens by source, and the largest clusters of near-duplicates."""
    ledger = json.loads((published / "ledger.json").read_text())
    sources = dict.fromkeys(line["source"] for line in ledger)
    documents = pl.concat(
        pl.scan_parquet(published / source / "*.parquet").select(
            "doc_id", "n_tokens", "cluster_id", source=pl.lit(source)
        )
        for source in sources
        if any((published / source).glob("*.parquet"))
    )
    print(
        documents.group_by("source")
        .agg(documents=pl.len(), tokens=pl.sum("n_tokens"), median=pl.median("n_tokens"))
        .sort("tokens", descending=True)
        .collect()
    )
    clusters = pl.scan_parquet(published / "clusters/*.parquet")
    print(
        clusters.group_by("cluster_id")
        .agg(documents=pl.len())
        .join(documents.group_by("cluster_id").agg(kept=pl.len()), on="cluster_id", how="left")
        .sort("documents", "cluster_id", descending=[True, False])
        .head(10)
        .collect()
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
