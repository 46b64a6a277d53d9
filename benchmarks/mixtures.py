"""From published Parquet to shuffled files for a trainer: MB/s of text on one core, ours and others'.

    python -m benchmarks.mixtures FOLDER TOKENIZER.JSON [GIGABYTES] [PYTHON_WITH_DATATROVE]

Ours is the whole way, with the choice of documents, both passes of the shuffle, and the accounts. Beside it stand
a script that reads the same Parquet, has gigatoken encode it and writes `.bin` and `.idx` in the order of reading,
and datatrove's block for tokens, which shuffles within a file. What Parquet alone takes is timed, too.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import awkward
import gigatoken
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from tokenizers import Tokenizer

from benchmarks.end_to_end import write_recipe, write_sources
from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, show
from zyda_flows.tasks.mixing.formats import Batch, Megatron
from zyda_flows.tasks.mixing.gathering import ORIGINS
from zyda_flows.tasks.mixing.mixing import Mixing
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.mixing.planning import inputs_of
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.stage.results import HERE
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


def ours(folder: Path, corpus: str, tokenizer: str) -> dict[str, float]:
    """Mix a corpus in this process; return the seconds of each step."""
    path = folder / "mixture.yaml"
    content = {
        "name": "mixture", "storage": "mixed", "tokenizer": tokenizer, "corpora": corpus, "end": END,
        "parts": [{"name": "all", "epochs": 1}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content))
    spent = dict[str, float]()

    def timed(jobs: list[Any], step: str) -> list[Any]:
        start = time.perf_counter()
        made = [job() for job in jobs]
        spent[step] = time.perf_counter() - start
        return made

    start = time.perf_counter()
    inputs = inputs_of(load_mixture(str(path)))
    spent["loading the tokenizer, once"] = time.perf_counter() - start
    mixed = Mixing(inputs, timed).mix()
    spent["all"] = time.perf_counter() - start
    spent["tokens of it"] = mixed.tokens
    return spent


def by_pyarrow(files: list[Path]) -> float:
    start = time.perf_counter()
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(columns=["text"], use_threads=False):
            batch.nbytes  # noqa: B018
    return time.perf_counter() - start


def by_gigatoken(files: list[Path], folder: Path, tokenizer: str) -> float:
    """Encode with gigatoken and write `.bin` and `.idx`, in the order of reading."""
    start = time.perf_counter()
    fast, end = gigatoken.Tokenizer(tokenizer), Tokenizer.from_file(tokenizer).token_to_id(END)
    writer = Megatron(folder, "gigatoken", 2)
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(4096, columns=["text"], use_threads=False):
            texts = batch.column("text").cast(pa.large_binary()).to_pylist()
            found = fast.encode_batch(texts, parallel=False)
            counts = np.asarray(awkward.num(found)).astype(np.int64)
            ends = np.cumsum(np.append(0, counts + 1))
            ids = np.full(ends[-1], end, np.uint16)
            is_own = np.ones(len(ids), bool)
            is_own[ends[1:] - 1] = False
            ids[is_own] = np.asarray(awkward.flatten(found))
            writer.add(Batch(ids, ends, ORIGINS.empty_table()))
    writer.close()
    return time.perf_counter() - start


def by_datatrove(python: str, source: Path, folder: Path, tokenizer: str) -> float:
    start = time.perf_counter()
    command = [python, "-c", DATATROVE, str(source), str(folder / "datatrove"), tokenizer, END]
    subprocess.run(command, check=True, capture_output=True, env={"TOKENIZERS_PARALLELISM": "false"})
    return time.perf_counter() - start


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO
    tokenizer = sys.argv[2] if len(sys.argv) > 2 else str(REPOSITORY / "recipes/models/demo-tokenizer.json")
    gigabytes = float(sys.argv[3]) if len(sys.argv) > 3 else 0.2
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_sources(folder, load_texts(source), gigabytes)
        recipe = load_recipe(write_recipe(folder, "corpus", tokenizer))
        ledger = run_pipeline(recipe, HERE)
        published = folder / "out/corpus/published"
        files = [
            path for name in ledger.sources for path in sorted((published / str(name)).glob("*.parquet"))
        ]
        megabytes = sum(
            int(pa.compute.sum(pa.compute.binary_length(pq.read_table(path, columns=["text"])["text"])).as_py())
            for path in files
        ) / 1e6  # fmt: skip
        copy_pieces(*(np.zeros(1, np.int64) for _ in range(5)))  # compiled code is loaded once by a worker
        spent = ours(folder, str(folder / "out/corpus"), tokenizer)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        tokens, whole = spent.pop("tokens of it"), spent.pop("all")
        times = {
            "zyda mix: shuffled over all, accounted": whole,
            "gigatoken to .bin and .idx, in the order of reading": by_gigatoken(files, folder, tokenizer),
            "reading the Parquet alone": by_pyarrow(files),
        }
        if len(sys.argv) > 4:
            times["datatrove, shuffled within the file"] = by_datatrove(
                sys.argv[4], published, folder, tokenizer
            )
        show(
            f"{megabytes:,.0f} MB of text to {tokens:,.0f} tokens, one core",
            [
                {
                    "what": what,
                    "seconds": seconds,
                    "MB/s of text": megabytes / seconds,
                    "tokens/s": tokens / seconds,
                }
                for what, seconds in times.items()
            ],
        )
        rest = {"other": whole - sum(spent.values())}
        show(
            f"the steps of zyda mix, peak memory {memory:,.0f} MiB with the build before it",
            [{"step": step, "seconds": seconds} for step, seconds in (spent | rest).items()],
        )


if __name__ == "__main__":
    as_workers_are()
    main()
