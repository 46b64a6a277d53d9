"""Looking up in a published corpus: a text, and a thousand new documents, in how many documents.

python -m benchmarks.lookup [DOCUMENTS] [DOCUMENTS OF KEYS ALONE]

The first corpus is built, of made documents of 40 words, and texts are looked up in it (`zyda find`), and new
documents deduplicated against it. Of the second there are band keys alone, at random, as the keys of a corpus of
other texts are; of the new documents some are there as well.
"""

import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.duplicates import WORDS, near_copy
from benchmarks.measure import REPOSITORY, as_workers_are, show
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.published import NO_TABLE, Published, PublishedKeys, TableFile
from zyda_flows.tasks.ids import BITS
from zyda_flows.tasks.lookup.nearest import nearest
from zyda_flows.tasks.publish.corpus import with_tables
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.signatures import index
from zyda_flows.tasks.signatures.bands import key_ranges, write_band_rows
from zyda_flows.tasks.signatures.keys import band_keys, index_parameters
from zyda_flows.tasks.stage.results import HERE
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import FOOTERS, write_artifact

NEW = 1000
FILE_DOCUMENTS = 500_000
TOKENIZER = str(REPOSITORY / "recipes/models/demo-tokenizer.json")
COMMAND = Path(sys.executable).with_name("zyda")


def made_texts(count: int, seed: int) -> Iterator[pa.LargeStringArray]:
    """Yield so many texts of 40 words, FILE_DOCUMENTS at a time."""
    chance = np.random.default_rng(seed)
    words = np.array(WORDS)
    for start in range(0, count, FILE_DOCUMENTS):
        chosen = words[chance.integers(0, len(words), (min(FILE_DOCUMENTS, count - start), 40))]
        yield pa.array([" ".join(row) for row in chosen.tolist()], pa.large_string())


def write_files(folder: Path, texts: Iterator[pa.LargeStringArray]) -> None:
    folder.mkdir(parents=True)
    for number, some in enumerate(texts):
        pq.write_table(pa.table({"text": some}), folder / f"{number:04d}.parquet", compression="zstd")


def recipe_of(folder: Path, name: str, **dedup: Any) -> Recipe:
    """Write the recipe of a corpus with one source, a folder beside it, and read it."""
    path = folder / f"{name}.yaml"
    content = {
        "name": name, "storage": "out", "tokenizer": TOKENIZER, "dedup": {"scope": "global", **dedup},
        "sources": [{"name": "only", "files": f"{name}-in/*.parquet"}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content))
    return load_recipe(str(path))


def timed_build(recipe: Recipe) -> dict[str, float]:
    """Build here, without Prefect and Dask; return the seconds of each stage."""
    spent = dict[str, float]()

    def submit(stage: Any, *inputs: Any, **options: Any) -> Any:
        start = time.perf_counter()
        done = HERE.submit(stage, *inputs, **options)
        name = str(stage.name)
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - start
        return done

    run_pipeline(recipe, HERE._replace(submit=submit))
    return spent


def new_documents(folder: Path, name: str, there: list[str]) -> None:
    """Write NEW documents, of which half are near-copies of some that are there."""
    chance = random.Random(2)
    copied = [near_copy(text, chance, 1000) for text in there[: NEW // 2]]
    fresh = next(made_texts(NEW - len(copied), 3)).to_pylist()
    write_files(folder / f"{name}-in", iter([pa.array([*copied, *fresh], pa.large_string())]))


def write_keys(folder: Path, count: int, there: list[str]) -> None:
    """Write what a corpus of so many documents publishes, with their band keys and without their texts."""
    dedup, root = MinHashRound(), Folder(str(folder))
    known, _ = band_keys(pa.array(there, pa.large_string()), dedup)
    files, chance = list[TableFile](), np.random.default_rng(4)
    ranges = key_ranges(count)
    for band in range(dedup.bands):
        for number, keys in enumerate(ranges):
            own = known[:, band]
            own = own[(own >= np.uint64(keys.low)) & (own <= np.uint64(keys.high - 1))]
            others = chance.integers(keys.low, keys.high, count // len(ranges), np.uint64, endpoint=False)
            both = np.sort(np.concatenate([own, others]))
            ids = np.arange(len(both), dtype=np.uint64)
            name = f"{band:03d}-{number:05d}"
            shard = write_artifact(
                root, f"bands/{name}-00000000.parquet", name,
                lambda path, band=band, both=both, ids=ids: write_band_rows(
                    path, [(band, both, ids)], group_rows=index.GROUP_ROWS
                ),
            )  # fmt: skip
            files.append(
                TableFile(
                    path=shard.path, sha256=shard.digest, size=shard.size, rows=shard.rows, footer=shard.footer,
                    footer_sha256=shard.footer_digest,
                )
            )  # fmt: skip
    documents = count // len(ranges) * len(ranges) + len(there)
    manifest = Published(
        name="keys", sample=1, software="", tokenizer={}, recipe={}, made_of=(), id_bits=BITS, accounts=(),
        ledger=Ledger(lines=()), table=NO_TABLE,
        bands={"bands": PublishedKeys(parameters=index_parameters(dedup), documents=documents)},
    )  # fmt: skip
    manifest, texts = with_tables(manifest, files, {}, "")
    for path, content in texts.items():
        (folder / path).write_bytes(content)
    (folder / "manifest.json").write_text(manifest.model_dump_json())


def against(folder: Path, name: str, there: list[str], url: str, **dedup: Any) -> dict[str, str | float]:
    """Deduplicate new documents against a corpus, and return how long that took."""
    new_documents(folder, name, there)
    FOOTERS.clear()
    spent = timed_build(recipe_of(folder, name, against=url, **dedup))
    removed = folder / "out" / name / "published/removed"
    gone = sum(pq.read_metadata(path).num_rows for path in removed.glob("*.parquet"))
    return {
        "what": f"{NEW:,} new documents, {name}",
        "seconds": spent["matches"] + spent["against"],
        "found": gone,
    }


def finding(recipe: Recipe, path: Path, texts: list[str]) -> Iterator[dict[str, str | float]]:
    """Look some near-copies up, here and by the command; yields a row each."""
    chance = random.Random(5)
    asked = [near_copy(text, chance, 1000) for text in texts]
    nearest(recipe, asked[0])  # compiles
    times, found = list[float](), 0
    for text in asked:
        FOOTERS.clear()
        start = time.perf_counter()
        found += bool(nearest(recipe, text))
        times.append(time.perf_counter() - start)
    yield {"what": "find, here", "seconds": statistics.median(times), "found": found}
    times = []
    for text in asked[:5]:
        start = time.perf_counter()
        subprocess.run([COMMAND, "find", path, text], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    yield {"what": "find, the command", "seconds": statistics.median(times), "found": len(times)}


def measured(folder: Path, count: int, of_keys: int) -> Iterator[dict[str, str | float]]:
    """Yield a row for each measurement."""
    write_files(folder / "there-in", made_texts(count, 1))
    there = pq.read_table(folder / "there-in/0000.parquet").column("text").slice(0, NEW).to_pylist()
    recipe = recipe_of(folder, "there")
    spent = timed_build(recipe)
    yield {"what": f"index of {count:,} documents", "seconds": spent["index"], "found": count}
    yield {"what": "the whole build of these", "seconds": sum(spent.values()), "found": count}
    for row in finding(recipe, folder / "there.yaml", there[:20]):
        yield row | {"what": f"{row['what']}, {count:,} documents"}
    url = str(folder / "out/there")
    timed_build(recipe_of(folder, "there"))
    yield against(folder, f"against {count:,}".replace(" ", "-").replace(",", ""), there, url)
    yield against(
        folder, f"against {count:,} verified".replace(" ", "-").replace(",", ""), there, url,
        verify={"containment": 0.5},
    )  # fmt: skip
    (folder / "keys").mkdir()
    write_keys(folder / "keys", of_keys, there)
    yield against(folder, f"against-{of_keys}-keys", there, str(folder / "keys"))


def measure(count: int = 20_000, of_keys: int = 200_000) -> None:
    """Measure corpora of so many documents."""
    with tempfile.TemporaryDirectory() as scratch:
        show("looking up, one core", list(measured(Path(scratch), count, of_keys)))


if __name__ == "__main__":
    as_workers_are()
    measure(*(int(float(size)) for size in sys.argv[1:3]))
