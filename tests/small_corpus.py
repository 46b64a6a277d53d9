"""One small corpus of named documents, and ways to build and read it."""

import copy
import gzip
import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
import zstandard

from tasks.recipe.reading import load_recipe

REPOSITORY = Path(__file__).parent.parent
TOKENIZER = REPOSITORY / "recipes/models/demo-tokenizer.json"
QUALITY = REPOSITORY / "recipes/models/demo-quality"
SHARED = REPOSITORY.parent / "shared"
COMMAND = [sys.executable, "-c", "import sys; from flows.command.cli import main; sys.exit(main())"]
WORDS = (TOKENIZER.parent / "demo-quality/tokenizer.json").read_text(encoding="utf-8")
WORDS = sorted({word for word in json.loads(WORDS)["model"]["vocab"] if word.isalpha() and word.isascii()})


def prose(name, words=300):
    """Return the text of a document, always the same for a name."""
    chosen = random.Random(name)
    return " ".join(chosen.choice(WORDS) for _ in range(words))


def edited(text, edits=1):
    """Return a near-duplicate: a text with some words in the middle replaced."""
    words = text.split(" ")
    for i in range(edits):
        words[len(words) // 2 + 7 * i] = f"edit{i}"
    return " ".join(words)


def rows(**documents):
    """Return a source's rows: the document's name, a number, and its text."""
    return [{"name": name, "stars": len(name) % 5, "text": text} for name, text in documents.items()]


SHARED_BY_ALL = prose("shared by all")
IN_ONE_SOURCE = prose("in one source")
SOURCES = {
    "best-0.parquet": rows(
        best_of_all=SHARED_BY_ALL, its_internal_copy=edited(SHARED_BY_ALL, 2), best_alone=prose("best alone")
    ),
    "best-1.parquet": rows(
        best_short="Too short for a shingle.", naïve_names="naïve café 漢字 🙂 " * 30, best_empty=""
    ),
    "middle.jsonl.gz": rows(
        middle_copy=edited(SHARED_BY_ALL), twin_1=IN_ONE_SOURCE, twin_2=edited(IN_ONE_SOURCE),
        middle_alone=prose("middle alone"), same_short="Too short for a shingle.",
    ),
    "worst-0.jsonl.zst": rows(worst_copy=SHARED_BY_ALL, worst_alone=prose("worst alone"), worst_empty=""),
    "worst-1.arrow": rows(exact_copy_of_middle_alone=prose("middle alone"), last_alone=prose("last alone")),
}  # fmt: skip


def write_rows(path: Path, found):
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(found), path)
    elif path.suffix == ".arrow":
        table = pa.Table.from_pylist(found)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines, mtime=0))
    elif path.suffix == ".zst":
        path.write_bytes(zstandard.compress(lines))
    else:
        path.write_bytes(lines)


class Corpus:
    """The small corpus of these tests in a folder of its own, with its recipe."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / "recipe.yaml"
        for name, found in SOURCES.items():
            write_rows(folder / "in" / name, found)
        self.recipe = {
            "name": "small",
            "storage": str(folder / "out"),
            "tokenizer": str(TOKENIZER),
            "sources": [
                {"name": "best", "files": "in/best-*.parquet"},
                {"name": "middle", "files": "in/middle*.jsonl.gz", "keep": "name <> 'middle_alone'"},
                {"name": "worst", "files": ["in/worst-*.jsonl.zst", "in/worst-*.arrow"]},
            ],
        }

    def write(self, **changes):
        """Write the recipe, whole at every moment: a build may be reading it."""
        new = self.path.with_suffix(".new")
        new.write_text(yaml.safe_dump({**self.recipe, **changes}))
        new.replace(self.path)
        return str(self.path)

    def load(self, **changes):
        return load_recipe(self.write(**changes))

    def elsewhere(self, folder):
        """Return this corpus with the same inputs, to be built in another folder."""
        other = copy.copy(self)
        other.folder, other.path = folder, folder / "recipe.yaml"
        sources = [
            {**source, "files": [str(self.folder / one) for one in np.atleast_1d(source["files"])]}
            for source in self.recipe["sources"]
        ]
        other.recipe = {**self.recipe, "storage": str(folder / "out"), "sources": sources}
        return other


def of_many_files(folder, count):
    """Return a corpus of some files more, so that something is always under way."""
    corpus = Corpus(folder)
    for i in range(count):
        documents = {f"n{i}_{j}": prose(f"n{j}") for j in range(5)}
        write_rows(corpus.folder / f"in/worst-{i + 2}.arrow", rows(**documents))
    return corpus


def build_here(recipe, **options):
    """Build a corpus in this process, with the flow's own stages one after another, without Prefect or Dask."""
    from flows.build import made
    from tasks.stage.healing import healed
    from tasks.stage.task import HERE

    return healed(recipe.folder, lambda: made(recipe, HERE, **options))


def published(recipe):
    return recipe.folder.folder("published")


def table_of(recipe, place):
    """Return the rows of a folder of the published corpus."""
    folder = published(recipe)
    files = [path for path in folder.files(place) if path.endswith(".parquet")]
    tables = []
    for path in files:
        with folder.open(path) as file:
            tables.append(pq.read_table(file))
    return pa.concat_tables(tables, promote_options="permissive").to_pylist() if tables else []


def kept_names(recipe):
    """Return the names of the documents that are in the corpus."""
    return {row["name"] for source in recipe.sources for row in table_of(recipe, source.name)}


def contents(recipe):
    """Return the SHA-256 of every published file, by its path."""
    folder = published(recipe)
    return {path: hashlib.sha256(folder.read(path)).hexdigest() for path in folder.files("")}


def zyda(*arguments, **more):
    """Run the command line in a process of its own."""
    command = [*COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)
