"""Measure the join of labels with documents by address: processor time, and memory of the largest task.

Each document has a short text and an address, half of the documents have a label, and a tenth of the labels are
there twice. The labels of all documents are compared with those of a query of DuckDB.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.corpora import build_here, published, write_recipe
from benchmarks.harness import Row, Size, Table, benchmark
from zyda_flows.tasks.labels.label_jobs import STAGE
from zyda_flows.tasks.spent import METER, Spent
from zyda_flows.tasks.stage.jobs import Job

FILES = 16
STEPS = {
    "TypesOfFile": "types of the labels",
    "LabelsOfFile": "labels by the hash of their key",
    "KeysOfDocuments": "documents by the hash of their key",
    "JoinOfPart": "join of a part",
    "LabelsOfShard": "labels of a shard",
}
QUERY = """
WITH best AS (SELECT url, max(grade) AS grade, max(topic) AS topic FROM '{labels}' GROUP BY url),
expected AS (SELECT documents.url, grade, topic FROM '{documents}' AS documents LEFT JOIN best USING (url))
SELECT count(*), count(published.topic), count(*) FILTER (
    published.grade IS DISTINCT FROM expected.grade OR published.topic IS DISTINCT FROM expected.topic
) FROM expected LEFT JOIN '{published}' AS published USING (url)
"""


def write_inputs(folder: Path, count: int, labels_count: int) -> None:
    """Write documents and labels, each in FILES files; half of the documents have labels."""
    (folder / "texts").mkdir()
    (folder / "labels").mkdir()
    chance = np.random.default_rng(0)
    for number, numbers in enumerate(np.array_split(np.arange(count), FILES)):
        documents = pa.table({"url": addresses(numbers), "text": texts(numbers)})
        pq.write_table(documents, folder / f"texts/{number:02}.parquet", row_group_size=20_000)
    for number, numbers in enumerate(np.array_split(np.arange(labels_count), FILES)):
        labelled = numbers + count // 2
        labelled = chance.permutation(np.concatenate([labelled, labelled[: len(labelled) // 10]]))
        grades = chance.random(len(labelled))
        topics = np.char.add("topic ", (labelled % 1000).astype(str))
        labels = pa.table({"url": addresses(labelled), "grade": grades, "topic": topics})
        pq.write_table(labels, folder / f"labels/{number:02}.parquet")


def addresses(numbers: Any) -> Any:
    return np.char.add("https://a.example/pages/", numbers.astype(str))


def texts(numbers: Any) -> Any:
    return np.char.add("the text of page ", numbers.astype(str))


def measured(job: Job[Any]) -> tuple[Any, Spent]:
    """Run a job in a process of its own; return its result and its resources."""
    METER.begin()
    made = job.counted()
    return made, METER.take() + Spent(calls=1)


@benchmark("joins")
def measure(count: Size = 30_000, labels: Size = 300_000) -> Iterator[Table]:
    """Measure a join of some documents with labels, of which a tenth are there twice."""
    spent, begin = defaultdict[str, Spent](Spent), Job.counted

    def counted(job: Job[Any]) -> Any:
        if job.stage != STAGE:
            return begin(job)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            made, used = process.submit(measured, job).result()
        spent[type(job).__name__] += used
        return made

    with tempfile.TemporaryDirectory(prefix="zyda-joins-") as scratch:
        folder = Path(scratch)
        write_inputs(folder, round(count), round(labels))
        recipe = Path(write_recipe(folder, "joined", {"texts": "texts/*.parquet"}))
        join = {"from": "labels/*.parquet", "on": "url", "take": ["grade", "topic"], "many": "max"}
        fields = yaml.safe_load(recipe.read_text())
        fields["sources"][0] |= {"exempt": True, "join": join}
        recipe.write_text(yaml.safe_dump(fields))
        began = time.perf_counter()
        with mock.patch.object(Job, "counted", counted):
            build_here(str(recipe))
        seconds = time.perf_counter() - began
        began = time.process_time()
        files = {name: f"{folder}/{name}/*.parquet" for name in ("labels", "texts")}
        query = QUERY.format(
            labels=files["labels"],
            documents=files["texts"],
            published=published(folder, "joined") / "texts/*.parquet",
        )
        ((documents, matched, different),) = duckdb.sql(query).fetchall()
        duck = time.process_time() - began
    yield Table("Tasks of a join", [*task_rows(spent)])
    row: Row = {"documents": documents, "with labels": matched, "different": different}
    yield Table("Compared with DuckDB", [row | {"build, s": seconds, "DuckDB, CPU s": duck}])


def task_rows(spent: dict[str, Spent]) -> Iterator[Row]:
    for name, step in STEPS.items():
        used = spent[name]
        yield {"step": step, "tasks": used.calls, "CPU s": used.cpu, "largest task, MiB": used.peak / 2**20}


if __name__ == "__main__":
    measure.main()
