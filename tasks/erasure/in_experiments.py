"""Find documents in the folders of experiments (`zyda ablate`), which store token ids and hashes of texts."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.corpus.documents import rows_with
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.dependent_kinds import Dependent, Subject
from zyda_flows.tasks.erasure.in_shards import Spread, ingested, texts_by_id
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.signatures.exact import text_hashes
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder

DOCUMENTS = f"{WORK}/documents"  # tables of documents, with the column `hash`, and of questions
EXPERIMENT = re.compile(r"(?:(.*)/)?protocol-[0-9a-f]+\.json")
AT_ONCE = 1000  # documents whose texts are read together


def experiment_places(paths: Iterable[str]) -> set[str]:
    """Return the folders of experiments."""
    return {match[1] or "" for path in paths if (match := EXPERIMENT.fullmatch(path))}


def in_experiment(subject: Subject, folder: Folder, spread: Spread) -> Iterator[Dependent]:
    """Yield an experiment if it stores some of the documents, as published or as ingested."""
    paths = [path for path in folder.files(DOCUMENTS) if path.endswith(".parquet")]
    if not paths or not len(subject.ids):
        return
    wanted = hashes_of(subject.corpus, subject.ids)
    found = spread(partial(hashes_in, folder, wanted), paths)
    if count := len(np.unique(np.concatenate([wanted[:0], *found]))):
        yield Dependent(kind="experiment", url=folder.url, of=subject.corpus.label, documents=count)


def hashes_of(corpus: PublishedCorpus, ids: Ids) -> Ids:
    """Return the hashes of the published and of the ingested texts of documents."""
    files = [file for source in corpus.manifest.ledger.sources for file in corpus.files(f"{source}/")]
    shards, hashes = ingested(corpus.root), [ids[:0]]
    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        rows = rows_with(corpus, files, "doc_id", some.tolist(), ["doc_id", "text"])
        texts = [
            *(rows.column("text").to_pylist() if len(rows) else ()),
            *texts_by_id(corpus.root, some, shards).values(),
        ]
        array = pa.array(texts, pa.large_string())
        hashes.append(text_hashes(array)[0])
    return np.unique(np.concatenate(hashes))


def hashes_in(folder: Folder, wanted: Ids, path: str) -> Ids:
    """Return the hashes of `wanted` in a table. Raises Damaged."""
    try:
        with folder.open(path) as stream, pq.ParquetFile(stream) as parquet:
            if "hash" not in parquet.schema_arrow.names:
                return wanted[:0]
            hashes = parquet.read(["hash"]).column("hash").to_numpy()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(f"{folder.url}/{path} cannot be read: it is cut or changed") from error
    return wanted[np.isin(wanted, hashes)]
