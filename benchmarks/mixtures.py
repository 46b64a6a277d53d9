"""Measure mixing, from published Parquet to shuffled files for a trainer: MB/s of text on one core, beside others.

Ours includes the choice of documents, both passes of the shuffle, and the accounts. Compared are a script that
encodes the same Parquet with gigatoken and writes `.bin` and `.idx` in the order of reading, datatrove's
DocumentTokenizer, which shuffles within a file, and reading the Parquet alone.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward
import gigatoken
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from tokenizers import Tokenizer

from benchmarks.corpora import (
    SOURCES,
    build_here,
    in_folders,
    load_texts,
    megabytes_of,
    published,
    write_multiplied,
    write_recipe,
)  # fmt: skip
from benchmarks.harness import (
    DEMO,
    DEMO_TOKENIZER,
    OtherPython,
    Size,
    Table,
    TextsFolder,
    TokenizerFile,
    benchmark,
    peak_mib,
    run_tool,
    timed,
)  # fmt: skip
from zyda_flows.tasks.mixing.formats import Batch, Megatron, Target
from zyda_flows.tasks.mixing.gathering import ORIGINS
from zyda_flows.tasks.mixing.mixing import Mixing
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.mixing.planning import inputs_of
from zyda_flows.textkernels.pieces import copy_pieces

END = "<|endoftext|>"
DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.tokens import DocumentTokenizer
if __name__ == "__main__":
    source, to, tokenizer, end = sys.argv[1:]
    block = DocumentTokenizer(to, local_working_dir=to + "/local", tokenizer_name_or_path=tokenizer, eos_token=end,
                              shuffle_documents=True)
    reader = ParquetReader(source, glob_pattern="[!rbcoa]*/*.parquet", id_key="doc_id")
    LocalPipelineExecutor([reader, block], tasks=1, logging_dir=to + "/logs").run()
"""


def mix(folder: Path, corpus: Path, tokenizer: Path) -> tuple[int, dict[str, float]]:
    """Mix a corpus in this process; return the tokens, and the seconds of each step and of "all"."""
    path = folder / "mixture.yaml"
    content = {
        "name": "mixture", "storage": "mixed", "tokenizer": str(tokenizer), "corpora": str(corpus), "end": END,
        "parts": [{"name": "all", "epochs": 1}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content))
    spent = dict[str, float]()

    def run_jobs(jobs: list[Any], step: str) -> list[Any]:
        results, spent[step] = timed(lambda: [job() for job in jobs])
        return results

    inputs, spent["loading the tokenizer, once"] = timed(lambda: inputs_of(load_mixture(str(path))))
    mixed, mixing = timed(Mixing(inputs, run_jobs).mix)
    return mixed.tokens, spent | {"all": mixing + spent["loading the tokenizer, once"]}


def batches_of(files: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in files:
        yield from pq.ParquetFile(path).iter_batches(4096, columns=["text"], use_threads=False)


def by_gigatoken(files: list[Path], folder: Path, tokenizer: Path) -> None:
    """Encode with gigatoken and write `.bin` and `.idx`, in the order of reading."""
    fast, end = gigatoken.Tokenizer(str(tokenizer)), Tokenizer.from_file(str(tokenizer)).token_to_id(END)
    writer = Megatron(Target(folder, "gigatoken", 2, tokenizer.name, ()))
    for batch in batches_of(files):
        encoded = fast.encode_batch(batch.column("text").cast(pa.large_binary()).to_pylist(), parallel=False)
        ends = np.cumsum(np.append(0, np.asarray(awkward.num(encoded)).astype(np.int64) + 1))
        ids = np.full(ends[-1], end, np.uint16)
        is_token = np.ones(len(ids), bool)
        is_token[ends[1:] - 1] = False
        ids[is_token] = np.asarray(awkward.flatten(encoded))
        writer.add(Batch(ids, ends, ORIGINS.empty_table()))
    writer.close()


@benchmark("mixtures")
def measure(
    texts: TextsFolder = DEMO,
    tokenizer: TokenizerFile = DEMO_TOKENIZER,
    gigabytes: Size = 0.2,
    python: OtherPython = "",
) -> Iterator[Table]:
    tokenizer = tokenizer.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_multiplied(folder, load_texts(texts), gigabytes)
        build_here(write_recipe(folder, "corpus", in_folders(SOURCES), tokenizer=str(tokenizer)))
        place = published(folder, "corpus")
        files = [path for source in SOURCES for path in sorted((place / source).glob("*.parquet"))]
        megabytes = sum(megabytes_of(pq.read_table(path, columns=["text"])["text"]) for path in files)
        copy_pieces(*(np.zeros(1, np.int64) for _ in range(5)))  # compiles
        tokens, steps = mix(folder, folder / "out/corpus", tokenizer)
        memory, whole = peak_mib(), steps.pop("all")
        works = {
            "gigatoken to .bin and .idx, in the order of reading": lambda: by_gigatoken(
                files, folder, tokenizer
            ),
            "reading the Parquet alone": lambda: [batch.nbytes for batch in batches_of(files)],
        }
        if python:
            command = [python, "-c", DATATROVE, place, folder / "datatrove", tokenizer, END]
            works["datatrove, shuffled within the file"] = lambda: run_tool(command, folder)
        times = {"zyda mix: shuffled over all, accounted": whole}
        times |= {name: timed(work)[1] for name, work in works.items()}
    yield Table(f"{megabytes:,.0f} MB of text to {tokens:,.0f} tokens, one core", [
        {"work": name, "seconds": seconds, "MB/s of text": megabytes / seconds, "tokens/s": tokens / seconds}
        for name, seconds in times.items()
    ])  # fmt: skip
    steps["other"] = whole - sum(steps.values())
    title = f"the steps of zyda mix, peak memory {memory:,.0f} MiB with the build before it"
    yield Table(title, [{"step": step, "seconds": seconds} for step, seconds in steps.items()])


if __name__ == "__main__":
    measure.main()
