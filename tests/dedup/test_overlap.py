"""The overlap of sources equals the removals of builds of each source alone, and of all with `global`."""

import random
from collections import Counter

import pyarrow.parquet as pq
import pytest
from small_corpus import Corpus, build_here, edited, prose, published, rows, table_of, write_rows

from zyda_flows.tasks.dedup import cluster_files, document_names

NAMES = ("one", "two", "three")


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """Return a corpus of families whose members are more or less similar, spread over three sources."""
    corpus = Corpus(tmp_path_factory.mktemp("crossed"))
    chance, source_losses = random.Random(3), {name: {} for name in NAMES}
    for family in range(40):
        text = prose(f"family {family}", 120)
        for member in range(chance.randrange(1, 7)):
            name = chance.choice(NAMES)
            source_losses[name][f"m{family}_{member}"] = edited(text, chance.randrange(0, 5))
    for name, documents in source_losses.items():
        halves = list(documents.items())[::2], list(documents.items())[1::2]
        for number, half in enumerate(halves):
            write_rows(corpus.folder / f"in/{name}-{number}.parquet", rows(**dict(half)))
    corpus.recipe["sources"] = [{"name": name, "files": f"in/{name}-*.parquet"} for name in NAMES]
    return corpus


def overlap_of(recipe, kind):
    """Return the documents and tokens of a kind, by source and by the source of the kept document."""
    return {
        (row["source"], row["other"]): (row["documents"], row["tokens"])
        for row in table_of(recipe, "overlap")
        if row["kind"] == kind
    }


def removed_pairs(recipe):
    """Count the removed documents and tokens, by their source and the source of the kept document."""
    with published(recipe).open("sources.parquet") as file:
        numbers = {row["source_number"]: row["source"] for row in pq.read_table(file).to_pylist()}
    documents, tokens = Counter(), Counter()
    for row in table_of(recipe, "removed"):
        pair = row["source"], numbers[row["kept_doc_id"] >> 54]
        documents[pair] += 1
        tokens[pair] += row["n_tokens"]
    return {pair: (documents[pair], tokens[pair]) for pair in documents}


def built(corpus, name, **changes):
    recipe = corpus.load(storage=str(corpus.folder / "out" / name), **changes)
    return recipe, build_here(recipe)


@pytest.fixture(scope="module")
def deduplicated_alone(crossed):
    """Return the documents that each source loses alone."""
    lost = {}
    for source in crossed.recipe["sources"]:
        recipe, _ = built(crossed, source["name"], sources=[source], dedup={"scope": "global"})
        lost |= removed_pairs(recipe)
    assert len(lost) == len(NAMES)
    return lost


@pytest.fixture(scope="module")
def deduplicated_together(crossed):
    recipe, _ = built(crossed, "global", dedup={"scope": "global"})
    return removed_pairs(recipe)


@pytest.mark.slow
@pytest.mark.parametrize("dedup", [{"scope": "across"}, {"scope": "global"}], ids=str)
@pytest.mark.parametrize("files", ["one file", "many files"])
def test_overlap_equals_separate_builds(
    crossed, deduplicated_alone, deduplicated_together, dedup, files, monkeypatch
):
    if files == "many files":
        monkeypatch.setattr(cluster_files, "FILE_DOCUMENTS", 7)
        monkeypatch.setattr(document_names, "PART_ROWS", 5)
    recipe, ledger = built(crossed, f"{dedup['scope']} {files}", dedup=dedup)
    assert overlap_of(recipe, "own") == deduplicated_alone
    assert overlap_of(recipe, "global") == deduplicated_together
    assert overlap_of(recipe, "removed") == removed_pairs(recipe)
    entering = {(line.source, line.source): line.out for line in ledger.lines if line.stage == "ingest"}
    assert overlap_of(recipe, "entering") == {
        pair: (of.documents, of.tokens) for pair, of in entering.items()
    }


def test_clusters_of_a_source_differ_from_clusters_of_all(crossed, deduplicated_alone, deduplicated_together):
    """A document of another source may join two documents of a source; else the previous test would prove nothing."""
    recipe, _ = built(crossed, "whole", dedup={"scope": "global"})
    within = Counter()
    for row in table_of(recipe, "clusters"):
        within[row["cluster_id"], row["doc_id"] >> 54] += 1
    assert sum(count - 1 for count in within.values()) > sum(
        documents for documents, _ in deduplicated_alone.values()
    )


def test_overlap_of_a_verified_round_counts_its_removals(crossed, deduplicated_alone, deduplicated_together):
    dedup = {"scope": "across", "verify": {"jaccard": 0.9}}
    recipe, _ = built(crossed, "verified", dedup=dedup)
    assert overlap_of(recipe, "own") == deduplicated_alone
    assert overlap_of(recipe, "global") == deduplicated_together
    assert overlap_of(recipe, "removed") == removed_pairs(recipe)
