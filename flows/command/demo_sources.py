"""The demo's sources: real text that is present on every machine with this project installed.

Four sources are written from the packages of the running Python, in four of the formats that ingest reads. They
overlap like published datasets: many packages contain the same licence, and a README is in the package and in its
metadata.
"""

import ast
import gzip
import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from zyda_flows.flows.command.terminal import say

TEXT_ENDINGS = {".md", ".rst", ".txt"}
MIN_CHARACTERS, MAX_CHARACTERS = 200, 200_000
SCHEMA = pa.schema(
    [("package", pa.string()), ("path", pa.string()), ("n_chars", pa.int64()), ("text", pa.string())]
)

Row = dict[str, str | int]


def gather(folder: Path, most: int | None = None) -> None:
    """Write the four sources into a folder. most: the largest number of documents of each."""
    folder.mkdir(parents=True, exist_ok=True)
    # This project is left out: its description is the README, which shows the result of the demo.
    other_packages = (package for package in distributions() if package.name != "zyda-flows")
    packages = sorted(other_packages, key=lambda package: package.name.lower())
    documentation = list(islice(documents(packages), most))
    half = len(documentation) // 2
    write(folder / "documentation-0.parquet", documentation[:half])
    write(folder / "documentation-1.parquet", documentation[half:])
    write(folder / "descriptions.jsonl.gz", list(islice(descriptions(packages), most)))
    write(folder / "docstrings.arrow", list(islice(docstrings(packages), most)))
    write(folder / "licences.jsonl.zst", list(islice(licences(packages), most)))


def row(package: Distribution, path: str, text: str) -> Iterator[Row]:
    """Yield a document, unless it is too short or too long."""
    if MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS:
        yield {"package": package.name, "path": path, "n_chars": len(text), "text": text}


def files(package: Distribution) -> Iterator[tuple[str, Path]]:
    for file in sorted(package.files or [], key=str):
        yield str(file), Path(str(package.locate_file(file)))


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def documents(packages: list[Distribution]) -> Iterator[Row]:
    """Yield the text files inside packages."""
    for package in packages:
        for name, path in files(package):
            if ".dist-info" not in name and path.suffix.lower() in TEXT_ENDINGS:
                yield from row(package, name, read(path))


def descriptions(packages: list[Distribution]) -> Iterator[Row]:
    """Yield the packages' descriptions, as shown by the package index."""
    for package in packages:
        # `package.metadata` is not used: after an import of importlib_metadata, it has the text in another field.
        head = package.read_text("METADATA") or package.read_text("PKG-INFO") or ""
        yield from row(package, "METADATA", head.partition("\n\n")[2])


def docstrings(packages: list[Distribution]) -> Iterator[Row]:
    """Yield the docstrings of the packages' modules."""
    for package in packages:
        for name, path in files(package):
            if path.suffix == ".py" and "/test" not in name:
                yield from row(package, name, docstring(path))


def docstring(path: Path) -> str:
    head = read(path)[:50_000].lstrip()
    if not head.startswith(('"""', 'r"""', "'''")):
        return ""
    quote = '"""' if '"""' in head[:4] else "'''"
    start = head.index(quote) + 3
    end = head.find(quote, start)
    try:
        return str(ast.literal_eval(head[: end + 3])) if end > 0 else ""
    except (SyntaxError, ValueError):
        return ""


def licences(packages: list[Distribution]) -> Iterator[Row]:
    """Yield the licence files of the packages."""
    for package in packages:
        for name, path in files(package):
            if ".dist-info" in name and any(word in path.name.upper() for word in ("LICEN", "COPYING")):
                yield from row(package, name, read(path))


def write(path: Path, rows: list[Row]) -> None:
    """Write rows in the format of the file's name, unless the file already contains them."""
    mark = path.with_suffix(".sha256")
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    if path.exists() and mark.exists() and mark.read_text() == digest:
        return
    mark.unlink(missing_ok=True)  # a file that is only partly written has no mark
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression="zstd")
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines, mtime=0))
    else:
        path.write_bytes(zstandard.compress(lines))
    mark.write_text(digest)
    say(f"{path}: {len(rows):,} documents")
