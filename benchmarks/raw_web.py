"""Measure ingest from WARC, with extraction, language, rules, tokens and band keys, against resiliparse alone.

    python -m benchmarks.raw_web FILE.warc.gz TOKENIZER [MODEL]

Prints CPU seconds of one core and MB of HTML a second. What resiliparse has to do alone is to read the records by
FastWARC, to decode each page and to extract its main content. MODEL: of fastText, as lid.176.ftz.
"""

import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import process_time

import yaml
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from zyda_flows.tasks.ingest.file_pieces import PieceToIngest
from zyda_flows.tasks.ingest.ingest import companions_of
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.sources.input_files import load_listing
from zyda_flows.tasks.tokens.stored import stored_engine


def alone(path: str) -> tuple[int, float]:
    """Return the bytes of HTML in a file, and the CPU seconds of reading, decoding and extracting them."""
    begun, size = process_time(), 0
    with open(path, "rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            content = record.reader.read()
            size += len(content)
            extract_plain_text(bytes_to_str(content, detect_encoding(content)), main_content=True)
    return size, process_time() - begun


def steps_with(model: str | None) -> Iterator[dict[str, object]]:
    yield {"extract": "fast"}
    if model:
        yield {"language_id": {"model": model}}
    yield {"filter": "gopher-repetition"}
    yield {"filter": "gopher-quality"}
    yield {"filter": "fineweb"}


def ingested(path: str, tokenizer: str, steps: list[dict[str, object]], folder: Path) -> float:
    """Return the CPU seconds of ingesting a file with some steps, its band keys with it."""
    folder.mkdir()
    recipe_path = folder / "recipe.yaml"
    recipe_path.write_text(
        yaml.safe_dump({
            "name": "web", "storage": str(folder / "out"), "tokenizer": str(Path(tokenizer).resolve()),
            "documents": steps, "on_bad_rows": "set_aside",
            "dedup": {"shingle": "words", "width": 5, "bands": 14, "rows": 8, "scope": "global"},
            "sources": [{"name": "pages", "files": str(Path(path).resolve())}],
        })
    )  # fmt: skip
    recipe = load_recipe(str(recipe_path))
    (plan,) = prepare.fn(recipe)
    companions, _ = companions_of(recipe, "pages")
    (file,) = load_listing(recipe.folder, plan.listing)
    job = PieceToIngest(
        folder=recipe.folder,
        source="pages",
        number=plan.number,
        parameters=plan.parameters,
        companions=companions,
        file=file,
        piece=file.pieces[0],
        forgotten=(),
    )
    # A worker reads it once for all its files; each of these corpora is another one.
    made_with = plan.parameters
    stored_engine(recipe.folder, made_with.tokenizer, made_with.special_tokens, is_exact=made_with.is_exact)
    begun = process_time()
    job()
    return process_time() - begun


def main(path: str, tokenizer: str, model: str | None = None) -> None:
    steps = [*steps_with(model)]
    with tempfile.TemporaryDirectory() as place:
        ingested(path, tokenizer, steps, Path(place) / "warm")  # what is compiled and read once
        alone(path)
        rows = []
        for number in range(3):
            size, seconds = alone(path)
            rows.append(("resiliparse alone", seconds))
            for count in range(len(steps) + 1):
                chosen = steps[:count]
                name = " + ".join(["ingest", *(next(iter(step)) for step in chosen)])
                rows.append((name, ingested(path, tokenizer, chosen, Path(place) / f"{number}-{count}")))
    for name in dict.fromkeys(name for name, _ in rows):
        best = min(seconds for of, seconds in rows if of == name)
        print(f"{name:72} {best:6.2f} seconds {size / best / 1e6:7.1f} MB/s")


if __name__ == "__main__":
    main(*islice(sys.argv, 1, 4))
