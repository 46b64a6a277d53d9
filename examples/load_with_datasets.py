"""Load a published corpus with Hugging Face's datasets.

python examples/load_with_datasets.py demo/demo/published
"""

import sys
from collections import Counter

from datasets import get_dataset_config_names, load_dataset


def main(published: str) -> None:
    """Print how many documents a corpus has, and how many each of its sources."""
    documents = load_dataset(published, split="train")  # of all sources
    print(f"{len(documents):,} documents, {sum(documents['n_tokens']):,} tokens")
    print(f"documents of each source: {dict(Counter(documents['source']))}")
    print(documents[0]["text"][:200])
    for name in get_dataset_config_names(published):
        table = load_dataset(published, name, split="train")
        print(f"{name}: {len(table):,} rows with the columns {', '.join(table.column_names)}")


if __name__ == "__main__":
    main(sys.argv[1])
