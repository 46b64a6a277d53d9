"""Cells of documents by published vectors: the direction with the largest product, for each document with a vector."""

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import Corpus, build_here, prose, rows, table_of, write_rows
from small_mixtures import experiment_file
from token_judges import random_judge

from zyda_flows.tasks.ablation.ablation import planned
from zyda_flows.tasks.ablation.experiment import load_experiment
from zyda_flows.tasks.ablation.vector_cells import NO_CELL, VectorCells, common_judge, directions
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.signatures.exact import text_hashes
from zyda_flows.tasks.storage.tables import read_table


@pytest.fixture(scope="module")
def judged(tmp_path_factory, compiled):
    """Return a corpus with the vectors of a judge in several files, and a copy without them."""
    folder = tmp_path_factory.mktemp("judged")
    corpus = Corpus(folder)
    for part in range(3):
        write_rows(
            folder / f"in/good-{part}.jsonl",
            rows(**{f"{part}-{i}": prose(f"{part} {i}", 90) for i in range(15)}),
        )
    corpus.recipe["sources"] = [{"name": "good", "files": "in/good-*.jsonl"}]
    judge = {"name": "a", "model": str(random_judge(folder / "judge"))}
    corpus.recipe |= {"name": "judged", "judges": [judge], "publish_vectors": "a"}
    build_here(corpus.load())
    build_here(corpus.load(name="plain", publish_vectors=[]))
    return corpus


def plain_cells(recipe):
    """Return the cell of each document, by id."""
    cells = {}
    for row in table_of(recipe, "vectors/a"):
        products = [
            sum(v * d for v, d in zip(row["vector"], column, strict=True))
            for column in directions(len(row["vector"])).T.tolist()
        ]
        cells[row["doc_id"]] = max(range(1000), key=products.__getitem__)
    return cells


def test_cells_are_the_directions_with_the_largest_product(judged):
    corpus = PublishedCorpus.of(judged.load())
    expected = plain_cells(judged.load())
    assert len(expected) == 45
    ids = np.array(sorted(expected), np.uint64)
    for step in (1, 7, 45):
        reader = VectorCells(corpus, "a", "good")
        found = [
            cell for start in range(0, 45, step) for cell in reader.of(ids[start : start + step]).tolist()
        ]
        assert found == [expected[each] for each in ids.tolist()]
    skipping = VectorCells(corpus, "a", "good")
    assert skipping.of(ids[[3, 20]]).tolist() == [expected[int(ids[3])], expected[int(ids[20])]]
    assert skipping.of(ids[[30]]).tolist() == [expected[int(ids[30])]]
    assert skipping.of(ids[-1:] + np.uint64(1)).tolist() == [NO_CELL]


def test_an_experiment_uses_the_vectors_that_all_corpora_publish(judged, tmp_path):
    out = f"{judged.recipe['storage']}"
    settings = {"name": "v", "tokens": 1000, "batch": 2, "held_out": 2, "controls": {"equal": True}}
    variants = [{"name": "all", "corpus": f"{out}/judged"}]
    _, _, runs = planned(
        load_experiment(str(experiment_file(tmp_path, judged, variants=variants, **settings))), print
    )
    cells = plain_cells(judged.load())
    published = table_of(judged.load(), "good")
    hashes = text_hashes(pa.array([row["text"] for row in published], pa.large_string()))[0].tolist()
    by_hash = {each: cells[row["doc_id"]] for each, row in zip(hashes, published, strict=True)}
    (part,) = runs[0].parts
    read = read_table(runs[0].folder, part.table)[: part.documents].column("hash").to_pylist()
    counts = np.bincount([by_hash[each] for each in read], minlength=1000) * 64
    assert list(part.content.cells) == counts.tolist()
    assert part.content.values.startswith("a ")
    mixed = [*variants, {"name": "plain", "corpus": f"{out}/plain"}]
    settings["name"] = "mixed"
    _, _, runs = planned(
        load_experiment(str(experiment_file(tmp_path, judged, variants=mixed, **settings))), print
    )
    (other,) = runs[0].parts
    assert other.content.values == ""
    assert sum(other.content.cells) > sum(part.content.cells) // 64
    assert common_judge([PublishedCorpus.of(judged.load(name="plain"))]) == ("", "")
