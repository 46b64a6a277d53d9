"""Verified removals equal a greedy search over exact sets in plain Python, for all sizes of parts."""

import random
import re
import string

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_corpus import (
    Corpus,
    build_here,
    contents,
    edited,
    prose,
    read_rows,
    rows,
    table_of,
    write_rows,
    zyda_here,
)

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup import by_documents, cluster_files, contested, large
from zyda_flows.tasks.dedup.large import LargeCluster
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.storage import parts as parts_module
from zyda_flows.textkernels.set_similarity import MISSING, find_duplicates

NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
LOOSE = {"shingle": "words", "width": 1, "bands": 64, "rows": 2}
RULES = [{"containment": 0.7}, {"jaccard": 0.5}, {"containment": 1.0}]


def shingles_of(text, dedup):
    """Cut a text into its set of shingles."""
    if dedup.shingle == "characters":
        return {text[i : i + dedup.width] for i in range(max(1, len(text) - dedup.width + 1))} - {""}
    words = text.lower().translate(NO_PUNCTUATION).split()
    return {tuple(words[i : i + dedup.width]) for i in range(max(1, len(words) - dedup.width + 1))} - {()}


def greedy(sets, groups, rule):
    """Return for each removed document its kept document and similarity, the most preferred documents first."""
    ((measure, least),) = rule.items()
    goes = dict[int, tuple[int, float, float]]()
    for i in range(len(sets)):
        for k in range(i):
            if k in goes or groups[k] >= groups[i]:
                continue
            both = len(sets[i] & sets[k])
            found = {"jaccard": both / len(sets[i] | sets[k]), "containment": both / len(sets[i])}
            if found[measure] >= least - 1e-9:
                goes[i] = (k, found["jaccard"], found["containment"])
                break
    return goes


documents = st.lists(st.sets(st.integers(0, 60), min_size=1), min_size=1, max_size=30)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(documents, min_size=1, max_size=3), st.data())
def test_decisions_equal_comparing_all_pairs(monkeypatch, clusters, data):
    monkeypatch.setattr(large, "COUNTER_BITS", 6)  # few counters, so that shingles share them
    rule = data.draw(st.sampled_from(RULES))
    ((measure, share),) = rule.items()
    asked = {"share": share, "is_jaccard": measure == "jaccard"}
    groups = [
        sorted(data.draw(st.lists(st.integers(0, 3), min_size=len(cluster), max_size=len(cluster))))
        for cluster in clusters
    ]
    # Numbers with different hashes, in an arbitrary order.
    hashes = [
        np.random.default_rng(i).permutation(np.array(sorted(document), np.uint64) * np.uint64(2**40 + 1))
        for i, document in enumerate(document for cluster in clusters for document in cluster)
    ]
    ends = np.cumsum([0, *map(len, hashes)])
    starts = np.cumsum([0, *map(len, clusters)])
    everyone = np.ones(len(hashes), np.bool_)
    holders, shared = find_duplicates(
        np.concatenate(hashes), ends, np.concatenate(groups), everyone, starts, **asked
    )
    for cluster, cluster_groups, start in zip(clusters, groups, starts[:-1], strict=True):
        expected = greedy(cluster, cluster_groups, rule)
        places = range(start, start + len(cluster))
        assert {i - start: holders[i] - start for i in places if holders[i] != MISSING} == {
            i: k for i, (k, _, _) in expected.items()
        }
        for i, (k, _, _) in expected.items():
            assert shared[start + i] == len(cluster[i] & cluster[k])
        own = hashes[start : start + len(cluster)]
        alone = LargeCluster(
            lambda asked_for, own=own: (own[i] for i in asked_for),
            np.array(cluster_groups),
            everyone[: len(own)],
            **asked,
        )
        found, both = alone.find_duplicates()
        assert (alone.unsure, alone.pairs) == (0, 0)
        assert found.tolist() == [expected.get(i, (MISSING,))[0] for i in range(len(cluster))]
        assert both.tolist() == shared[start : start + len(cluster)].tolist()


def families(count, template, noise):
    """Return documents that share a template, as sets: some distinct, some near-copies of an earlier document."""
    chance = np.random.default_rng(3)

    def numbers(n):
        return chance.integers(1, 2**63, n).astype(np.uint64)

    base, made = numbers(int(500 * template)), list[np.ndarray]()
    while len(made) < count:
        whole = np.concatenate([base, numbers(500 - len(base))])
        made.append(whole)
        for _ in range(int(chance.integers(0, 4))):
            copy = whole.copy()
            copy[chance.choice(500, int(500 * noise), replace=False)] = numbers(int(500 * noise))
            made.append(copy)
    return [made[i] for i in chance.permutation(len(made))]


@pytest.mark.parametrize(
    ("template", "noise", "share"), [(0.9, 0.02, 0.95), (0.6, 0.1, 0.8), (0.0, 0.15, 0.8)]
)
def test_decisions_in_a_large_cluster_equal_comparing_all_pairs(template, noise, share):
    hashes = families(1500, template, noise)
    groups = np.arange(len(hashes))
    starts = np.array([0, len(hashes)])
    ends = np.cumsum([0, *map(len, hashes)])
    is_removable = np.ones(len(hashes), np.bool_)
    exact, _ = find_duplicates(
        np.concatenate(hashes), ends, groups, is_removable, starts, share=share, is_jaccard=False
    )
    cluster = LargeCluster(
        lambda asked: (hashes[i] for i in asked), groups, is_removable, share=share, is_jaccard=False
    )
    found, shared = cluster.find_duplicates()
    assert np.count_nonzero(exact != MISSING) > 500
    for i in np.flatnonzero(found != MISSING):
        assert shared[i] == len(np.intersect1d(hashes[i], hashes[found[i]])) >= share * 500
    assert found.tolist() == exact.tolist()


def chained(folder):
    """Return a corpus with chains of edited texts whose ends differ much, over three sources."""
    chance = random.Random(5)
    corpus = Corpus(folder)
    words = [f"w{i}" for i in range(400)]
    documents = {"best": {}, "middle": {}, "worst": {}}
    for chain in range(6):
        text = chance.sample(words, 60)
        for step in range(12):
            source = chance.choice(list(documents))
            documents[source][f"chain{chain}_{step}"] = " ".join(text)
            text = [*text[5:], *chance.sample(words, 5)]
    for name, ending in (("best", "parquet"), ("middle", "jsonl.gz"), ("worst", "arrow")):
        write_rows(folder / f"in/{name}-7.{ending}", rows(**documents[name]))
    corpus.recipe["sources"][1]["files"] = "in/middle*.jsonl.gz"
    return corpus


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    return chained(tmp_path_factory.mktemp("chains"))


def expected_removals(recipe, rule):
    """Compute the removed documents from sources and published clusters: {doc_id: (kept, jaccard, containment)}."""
    corpus = DocumentReader.of(recipe)
    rank = {source.name: i for i, source in enumerate(recipe.sources)}
    members = dict[int, list[int]]()
    for row in table_of(recipe, "clusters"):
        members.setdefault(row["cluster_id"], []).append(row["doc_id"])
    expected = {}
    for cluster in members.values():
        places = {doc_id: corpus.place(doc_id) for doc_id in cluster}
        order = sorted(cluster, key=lambda i: (rank[places[i].source], places[i].file, places[i].row))
        texts = [read_rows(places[doc_id].file)[places[doc_id].row]["text"] for doc_id in order]
        sets = [shingles_of(text, recipe.rounds[0]) for text in texts]
        groups = range(len(order))
        if recipe.rounds[0].scope == "across":
            groups = [rank[places[doc_id].source] for doc_id in order]
        for i, (k, jaccard, containment) in greedy(sets, groups, rule).items():
            expected[order[i]] = (order[k], jaccard, containment)
    return expected


def assert_verified(recipe, rule):
    removed = [row for row in table_of(recipe, "removed") if row["stage"] == "removals"]
    expected = expected_removals(recipe, rule)
    assert {row["doc_id"]: row["kept_doc_id"] for row in removed} == {
        i: k for i, (k, _, _) in expected.items()
    }
    for row in removed:
        assert (row["jaccard"], row["containment"]) == pytest.approx(expected[row["doc_id"]][1:], abs=1e-6)
    return removed


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["across", "global"])
@pytest.mark.parametrize("rule", RULES[:2], ids=str)
def test_documents_are_removed_for_a_kept_document_that_holds_enough(chains, scope, rule):
    recipe = chains.load(name=f"{scope}-{next(iter(rule))}", dedup={**LOOSE, "scope": scope, "verify": rule})
    build_here(recipe)
    removed = assert_verified(recipe, rule)
    alone = chains.load(name=f"{scope}-alone", dedup={**LOOSE, "scope": scope})
    build_here(alone)
    unverified = [row for row in table_of(alone, "removed") if row["stage"] == "removals"]
    assert 5 < len(removed) < len(unverified)
    assert "jaccard" not in unverified[0]
    audit = PublishedCorpus.of(recipe).manifest.audits["audit"]
    assert (audit.unlike, audit.threshold, audit.measure) == (0, *reversed(next(iter(rule.items()))))


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["across", "global"])
def test_decisions_about_real_text_equal_those_of_exact_sets(shared, tmp_path, scope):
    corpus = Corpus(tmp_path)
    rule = {"containment": 0.8}
    names = ("powershell-7.6", "powershell-5.1", "powershell-concepts")
    recipe = corpus.load(
        sources=[{"name": name, "files": f"{shared}/corpora/{name}/*"} for name in names],
        dedup={"scope": scope, "verify": rule},
    )
    build_here(recipe)
    removed = assert_verified(recipe, rule)
    assert len(removed) > 100


def test_texts_are_read_from_their_file(tmp_path):
    texts = ["naïve", "", "漢字 🙂", "last"]
    path = tmp_path / "texts"
    path.write_text("".join(texts))
    ends = np.cumsum([0, *(len(text.encode()) for text in texts)])
    with path.open("rb") as file:
        assert parts_module.TextFile(file.fileno(), ends).take(np.array([3, 0, 2, 1])).to_pylist() == [
            "last", "naïve", "漢字 🙂", "",
        ]  # fmt: skip


@pytest.mark.parametrize(
    "dedup",
    [
        {"verify": {"containment": 0.8}},
        {"prefer": ["source", "longest"]},
        {"scope": "global", "bands": 128, "rows": 1, "verify": {"containment": 0.99}},
    ],
    ids=str,
)
def test_clusters_without_removals(tmp_path, dedup):
    corpus = Corpus(tmp_path)
    text = prose("alike", 100)
    other = " ".join([*text.split()[:60], *prose("other", 40).split()])
    write_rows(tmp_path / "in/only.jsonl", rows(one=text, two=text if "scope" not in dedup else other))
    recipe = corpus.load(dedup=dedup, sources=[{"name": "only", "files": "in/only.jsonl"}])
    ledger = build_here(recipe)
    assert len(table_of(recipe, "clusters")) == 2
    assert ledger.removed("removals").documents == 0


@pytest.mark.slow
def test_decisions_do_not_depend_on_the_size_of_parts(chains, monkeypatch):
    dedup = {**LOOSE, "bands": 16, "scope": "global", "verify": {"containment": 0.7}}
    whole = chains.load(name="whole", dedup=dedup)
    build_here(whole)
    small = chains.load(name="small-shards", dedup=dedup, shard_mib=0.002)
    build_here(small)
    assert removed_of(small) == removed_of(whole)
    monkeypatch.setattr(by_documents, "PART_BYTES", 2000)
    monkeypatch.setattr(cluster_files, "FILE_DOCUMENTS", 3)
    monkeypatch.setattr(parts_module, "GROUP_BYTES", 500)
    monkeypatch.setattr(contested, "FILE_BYTES", 3000)
    parts = chains.load(name="parts", dedup=dedup, shard_mib=0.002)
    build_here(parts)
    assert len([path for path in parts.folder.files("work/verify") if "/part-" in path]) > 8
    assert removed_of(parts) == removed_of(whole)
    monkeypatch.setattr(by_documents, "MOST_BITS", 2)
    twice = chains.load(name="twice", dedup=dedup, shard_mib=0.002)
    build_here(twice)
    cut_again = [path for path in twice.folder.files("work/verify") if re.search(r"/part-\d{5}-\d{7}-", path)]
    assert len(cut_again) > 8
    assert removed_of(twice) == removed_of(whole)
    # Clusters of up to 16 documents are decided equally alone and together.
    alone = chains.load(name="alone", dedup=dedup, shard_mib=0.002)
    monkeypatch.setattr(large, "SETS_BYTES", 3000)
    with replaced_limits(cluster_bytes=500):
        build_here(alone)
    assert removed_of(alone) == removed_of(whole)


def removed_of(recipe):
    return sorted(map(str, table_of(recipe, "removed")))


def test_very_large_cluster_is_compared_piece_by_piece(tmp_path):
    corpus = Corpus(tmp_path)
    text = prose("many", 200)
    write_rows(tmp_path / "in/worst-7.arrow", rows(**{f"n{i}": text for i in range(40)}))
    write_rows(tmp_path / "in/best-7.parquet", rows(one=text, other=edited(text)))
    rule = {"containment": 0.8}
    recipe = corpus.load(dedup={"scope": "global", "verify": rule})
    with replaced_limits(cluster_documents=10):
        build_here(recipe)
    removed = [row for row in table_of(recipe, "removed") if row["stage"] == "removals"]
    cluster = [row for row in removed if row["kept_doc_id"] in {r["kept_doc_id"] for r in removed[-1:]}]
    assert len(cluster) >= 40  # equal texts are always in the same piece
    assert all(row["containment"] >= 0.8 for row in removed)
    # All but the edited text are equal.
    said = "42 documents are in clusters that were cut into pieces for their size: (0|41) pairs of documents"
    assert re.search(said, recipe.folder.read("published/README.md").decode())
    assert re.search(said, zyda_here("ledger", str(corpus.path)).stdout)


@pytest.mark.slow
def test_build_with_an_added_file_equals_a_fresh_build(tmp_path):
    corpus = chained(tmp_path)
    corpus.recipe["dedup"] = {**LOOSE, "verify": {"containment": 0.7}}
    build_here(corpus.load())
    texts = [row["text"] for row in table_of(corpus.load(), "best")][:6]
    write_rows(tmp_path / "in/worst-8.arrow", rows(**{f"late{i}": text for i, text in enumerate(texts)}))
    recipe = corpus.load()
    build_here(recipe)
    fresh = corpus.load(storage=str(tmp_path / "fresh"))
    build_here(fresh)
    assert contents(recipe) == contents(fresh)


@pytest.mark.slow
def test_truncated_intermediate_files_are_rebuilt(chains, tmp_path):
    recipe = chains.load(name="cut", dedup={**LOOSE, "verify": {"containment": 0.7}})
    build_here(recipe)
    before = contents(recipe)
    for path in recipe.folder.files("work/verify"):
        if not path.endswith(".parquet"):
            continue
        for stage in ("decisions", "removals", "audit", "classify", "filter", "publish"):
            for manifest in recipe.folder.files("work/manifests"):
                if f"/{stage}-" in manifest:
                    recipe.folder.delete(manifest)
        content = bytearray(recipe.folder.read(path))
        content[len(content) // 2] ^= 1
        recipe.folder.write(path, bytes(content))
        build_here(recipe)
        assert contents(recipe) == before


@pytest.mark.slow
def test_similarities_are_explained(chains):
    recipe = chains.load(name="explained", dedup={**LOOSE, "verify": {"containment": 0.7}})
    build_here(recipe)
    (row, *_) = (row for row in table_of(recipe, "removed") if row["stage"] == "removals")
    said = zyda_here("explain", str(chains.path), str(row["doc_id"]))
    assert said.returncode == 0, said.stderr
    assert f"(jaccard {row['jaccard']:.4g}, containment {row['containment']:.4g})" in said.stdout


@pytest.mark.parametrize(
    ("given_rule", "said"),
    [
        ({}, "give one of containment and jaccard"),
        ({"containment": 0.8, "jaccard": 0.8}, "give one of containment and jaccard"),
        ({"containment": 0}, "more than 0"),
        ({"jaccard": 1.01}, "at most 1"),
        ({"jaccard": "0.8"}, "a number is expected"),
        ({"edit": 0.8}, "unknown field"),
        (0.8, "verify"),
    ],
    ids=str,
)
def test_impossible_rule_is_a_one_line_error(corpus, given_rule, said):
    with pytest.raises(BadRecipe) as caught:
        corpus.load(dedup={"verify": given_rule})
    (line, *more) = str(caught.value).splitlines()
    assert not more
    assert "verify" in line
    assert said in line
    assert ":" in line.split("recipe.yaml")[1]
