"""Read a published corpus with pandas: ids keep their digits, and sums of tokens have 64 bits.

python examples/read_with_pandas.py demo/demo/published
"""

import json
import sys
from pathlib import Path

import pandas as pd


def main(published: Path) -> None:
    """Print tokens by source, and which source was kept instead of which."""
    names = dict.fromkeys(line["source"] for line in json.loads((published / "ledger.json").read_text()))
    folders = [published / name for name in names if any((published / name).rglob("*.parquet"))]
    columns = ["doc_id", "source", "n_tokens", "cluster_id"]
    documents = pd.concat([pd.read_parquet(folder, columns=columns) for folder in folders])
    print(documents.groupby("source")["n_tokens"].agg(["count", "sum"]).sort_values("sum"))

    # `kept_doc_id` is null where nothing was kept instead. pandas reads it as UInt64, which has nulls; as float64,
    # which it takes for other integers with nulls, ids above 2^53 would be rounded and joins would be wrong.
    removed = pd.read_parquet(published / "removed", columns=["doc_id", "source", "kept_doc_id"])
    print(removed.dtypes)
    kept = documents.set_index("doc_id")["source"].rename("kept_source")
    pairs = removed.dropna().join(kept, on="kept_doc_id")
    print(pairs.groupby(["source", "kept_source"]).size())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
