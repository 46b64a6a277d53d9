"""Ask the files of a published corpus in SQL, with DuckDB.

python examples/read_with_duckdb.py demo/demo/published
"""

import json
import sys
from pathlib import Path

import duckdb


def main(published: Path) -> None:
    """Print tokens by source, and which source was kept instead of which."""
    names = dict.fromkeys(line["source"] for line in json.loads((published / "ledger.json").read_text()))
    folders = [published / name for name in names if any((published / name).rglob("*.parquet"))]
    database = duckdb.connect()
    documents = database.read_parquet([f"{folder}/**/*.parquet" for folder in folders], union_by_name=True)
    removed = database.read_parquet(f"{published}/removed/*/*.parquet", union_by_name=True)
    documents.create_view("documents")
    removed.create_view("removed")
    database.sql(
        "SELECT source, count(*) AS documents, sum(n_tokens) AS tokens FROM documents GROUP BY ALL"
    ).show()
    database.sql(
        """
        SELECT removed.source, documents.source AS kept_source, count(*) AS documents
        FROM removed JOIN documents ON removed.kept_doc_id = documents.doc_id
        GROUP BY ALL ORDER BY documents DESC
        """
    ).show()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
