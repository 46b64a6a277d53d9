"""Measure ingest from WARC with extraction, language, rules, tokens and band keys, beside resiliparse alone.

Times are CPU time of one core, the least of three rounds; speeds are MB of HTML per second. resiliparse alone
reads the records with FastWARC, decodes each page and extracts its main content. MODEL is fastText's, for example
lid.176.ftz.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Annotated

import typer
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from benchmarks.corpora import write_recipe
from benchmarks.harness import InputFile, Table, TokenizerFile, benchmark, timed
from zyda_flows.tasks.ingest.file_pieces import PieceToIngest
from zyda_flows.tasks.ingest.ingest import companions_of
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.sources.input_files import load_listing
from zyda_flows.tasks.tokens.stored import stored_engine

ROUNDS = 3
DEDUP = {"shingle": "words", "width": 5, "bands": 14, "rows": 8, "scope": "global"}


def extract_alone(path: Path) -> int:
    """Extract the pages of a file with resiliparse; return the bytes of HTML."""
    size = 0
    with path.open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            content = record.reader.read()
            size += len(content)
            extract_plain_text(bytes_to_str(content, detect_encoding(content)), main_content=True)
    return size


def ingest_seconds(path: Path, tokenizer: Path, steps: list[dict[str, object]]) -> float:
    """Return the CPU seconds of ingesting a file into a new corpus, with its band keys."""
    with tempfile.TemporaryDirectory() as scratch:
        fields = {
            "tokenizer": str(tokenizer.resolve()),
            "documents": steps,
            "on_bad_rows": "set_aside",
            "dedup": DEDUP,
        }
        recipe = load_recipe(write_recipe(Path(scratch), "web", {"pages": str(path.resolve())}, **fields))
        (plan,) = prepare.fn(recipe)
        companions, _ = companions_of(recipe, "pages")
        (file,) = load_listing(recipe.folder, plan.listing)
        job = PieceToIngest(
            folder=recipe.folder, source="pages", number=plan.number, parameters=plan.parameters,
            companions=companions, file=file, piece=file.pieces[0], forgotten=(),
        )  # fmt: skip
        # A worker reads the tokenizer once for all its files, so that its time is not measured.
        made_with = plan.parameters
        stored_engine(
            recipe.folder, made_with.tokenizer, made_with.special_tokens, is_exact=made_with.is_exact
        )
        return timed(job, process_time)[1]


@benchmark("raw_web")
def measure(
    path: InputFile,
    tokenizer: TokenizerFile,
    model: Annotated[str, typer.Argument(help="Language model; empty: none.")] = "",
) -> Iterator[Table]:
    steps: list[dict[str, object]] = [
        {"extract": "fast"}, *([{"language_id": {"model": str(Path(model).resolve())}}] if model else []),
        {"filter": "gopher-repetition"}, {"filter": "gopher-quality"}, {"filter": "fineweb"},
    ]  # fmt: skip
    ingest_seconds(path, tokenizer, steps)  # compiles, and reads models
    size = extract_alone(path)
    best = dict[str, float]()
    for _ in range(ROUNDS):
        seconds = {"resiliparse alone": timed(lambda: extract_alone(path), process_time)[1]}
        for count in range(len(steps) + 1):
            name = " + ".join(["ingest", *(next(iter(step)) for step in steps[:count])])
            seconds[name] = ingest_seconds(path, tokenizer, steps[:count])
        best = {name: min(spent, best.get(name, spent)) for name, spent in seconds.items()}
    rows = [{"work": name, "CPU s": spent, "MB/s": size / spent / 1e6} for name, spent in best.items()]
    yield Table("raw web, one core", rows)


if __name__ == "__main__":
    measure.main()
