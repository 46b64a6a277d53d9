"""The audit of removed near-duplicates equals a comparison of exact sets of shingles, on a deterministic sample."""

import itertools
import random
import re
import string
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import Corpus, build_here, edited, prose, rows, table_of, write_rows, zyda_here

from zyda_flows.flows.dashboard.report_artifact import write_report
from zyda_flows.tasks.accounts.audited import AuditCounts
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup import audit as audit_module
from zyda_flows.tasks.dedup import likeness
from zyda_flows.tasks.dedup.audit import AuditedRound
from zyda_flows.tasks.dedup.likeness import steps_between
from zyda_flows.tasks.dedup.pairings import (
    ClusterMembers,
    RemovalCandidates,
    even_shares,
    first_of_each,
    hash_ids,
    pairings_of,
    verdicts_of,
)
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.publish.audits import (
    audit_again,
    by_length,
    by_source,
    last_audit,
    pairs_of,
)
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.tasks.stage.verdicts import trail_of
from zyda_flows.textkernels.sets import overlaps

pytestmark = pytest.mark.slow

NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
LOOSE = {"shingle": "words", "width": 1, "bands": 64, "rows": 2}


def shingles_of(text, dedup):
    """Cut a text into its set of shingles."""
    parts = text if dedup.shingle == "characters" else text.lower().translate(NO_PUNCTUATION).split()
    runs = {tuple(parts[i : i + dedup.width]) for i in range(max(1, len(parts) - dedup.width + 1))}
    return runs - {()}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab é漢🙂", max_size=60), min_size=2, max_size=6),
    st.sampled_from(
        [MinHashRound(width=1), MinHashRound(width=3), MinHashRound(), MinHashRound(shingle="words", width=2)]
    ),
)
def test_overlaps_equal_those_of_exact_sets(texts, dedup):
    hashes, ends = shingle_sets(pa.array(texts, pa.large_string()), dedup)
    exact = [shingles_of(text, dedup) for text in texts]
    assert np.diff(ends).tolist() == [len(shingles) for shingles in exact]
    first, second = (
        np.array(places) for places in zip(*itertools.product(range(len(texts)), repeat=2), strict=True)
    )
    counted = overlaps(hashes, ends, first, second).tolist()
    assert counted == [len(exact[a] & exact[b]) for a, b in zip(first, second, strict=True)]


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    """A corpus in which chains of edited texts end far from where they begin."""
    chance = random.Random(5)
    corpus = Corpus(tmp_path_factory.mktemp("chains"))
    words = [f"w{i}" for i in range(400)]
    chained = {"best": {}, "worst": {}}
    for chain in range(6):
        text = chance.sample(words, 60)
        for step in range(8):
            source = "best" if step == 0 else "worst"
            chained[source][f"chain{chain}_{step}"] = " ".join(text)
            text = [*text[9:], *chance.sample(words, 9)]
    for name, documents in chained.items():
        write_rows(
            corpus.folder / f"in/{name}-7.{'parquet' if name == 'best' else 'arrow'}", rows(**documents)
        )
    corpus.recipe["dedup"] = LOOSE
    return corpus


def test_audited_similarities_equal_those_of_exact_sets(chains):
    recipe = chains.load()
    build_here(recipe)
    kept = {row["doc_id"]: row["text"] for source in recipe.sources for row in table_of(recipe, source.name)}
    removed = {row["doc_id"]: row for row in table_of(recipe, "removed") if row["reason"] == "duplicate"}
    clusters = {row["doc_id"]: row["cluster_id"] for row in table_of(recipe, "clusters")}
    audit = table_of(recipe, "audit")
    assert {row["doc_id"] for row in audit} == removed.keys()
    by_text = {row["doc_id"]: text_of(recipe, row["doc_id"]) for row in audit}
    for row in audit:
        ours = shingles_of(by_text[row["doc_id"]], recipe.rounds[0])
        theirs = {i: shingles_of(text, recipe.rounds[0]) for i, text in kept.items() if i in clusters}
        likeness = {
            i: len(ours & t) / len(ours | t)
            for i, t in theirs.items()
            if clusters[i] == clusters[row["doc_id"]]
        }
        assert row["jaccard"] == pytest.approx(max(likeness.values()), abs=1e-6)
        best = theirs[row["kept_doc_id"]]
        assert row["containment"] == pytest.approx(len(ours & best) / len(ours), abs=1e-6)
    assert max(row["steps"] or 0 for row in audit) > 1
    headline = PublishedCorpus.of(recipe).manifest.audits["audit"]
    unlike = sum(row["jaccard"] < recipe.rounds[0].threshold for row in audit)
    assert (headline.pairs, headline.unlike) == (len(audit), unlike)
    assert unlike > 0


def text_of(recipe, doc_id):
    """Read a text from its source, independently of the audit."""
    return DocumentReader.of(recipe).text(doc_id)


def test_sample_is_deterministic_and_a_subset_of_a_larger_sample(chains):
    recipe = chains.load(name="again")
    build_here(recipe)
    small_shards = chains.load(name="again-small", shard_mib=0.01)
    build_here(small_shards)
    whole = table_of(recipe, "audit")
    assert whole == table_of(small_shards, "audit")
    few = {row["doc_id"] for row in pairs_of(recipe.folder, audit_again(Round(recipe, 1), 6)).to_pylist()}
    more = {row["doc_id"] for row in pairs_of(recipe.folder, audit_again(Round(recipe, 1), 12)).to_pylist()}
    assert len(few) == 6
    assert len(more) == 12
    assert few < more < {row["doc_id"] for row in whole}


def test_long_texts_are_compared_in_small_batches(chains, monkeypatch):
    whole = chains.load(name="whole")
    build_here(whole)
    sizes = list[int]()
    compare = likeness.compare_texts
    monkeypatch.setattr(audit_module, "TEXT_AT_ONCE", 10_000)
    monkeypatch.setattr(
        likeness, "compare_texts", lambda *given: (sizes.append(given[1].nbytes), compare(*given))[1]
    )
    few = chains.load(name="few")
    build_here(few)
    assert table_of(few, "audit") == table_of(whole, "audit")
    assert len(sizes) > 3
    assert max(sizes) < 25_000


@given(st.lists(st.integers(0, 4)), st.integers(1, 3))
def test_first_of_each_equals_a_plain_count(clusters, most):
    expected = [i for i, cluster in enumerate(clusters) if clusters[:i].count(cluster) < most]
    assert sorted(first_of_each(np.array(clusters, np.uint64), most)) == expected


def test_large_clusters_and_many_removals_return_few_rows(corpus):
    """The pairings equal those computed from all documents of the cluster."""
    text = prose("all alike")
    write_rows(corpus.folder / "in/best-6.parquet", rows(**{f"kept{i}": text for i in range(60)}))
    write_rows(corpus.folder / "in/worst-6.arrow", rows(**{f"gone{i}": text for i in range(900)}))
    recipe = corpus.load()
    build_here(recipe)
    trails = [trail_of([*one]) for one in last_audit(Round(recipe, 1)).facts_as(AuditedRound).trails]
    few = pairings_of(recipe.folder, trails, 10)
    every = pairings_of(recipe.folder, trails, 2000)
    worst_source = [p.doc_id for p in every if p.source == "worst"]
    assert len(worst_source) == 902
    smallest_ids = sorted(worst_source, key=lambda i: int(hash_ids(np.array([i], np.uint64))[0]))
    chosen = [p for p in few if p.source == "worst"]
    assert [p.doc_id for p in chosen] == smallest_ids[: len(chosen)]
    (alike, *_) = (p for p in every if len(p.kept) > 3)
    assert len(alike.kept) == 16
    assert alike.members == ()
    (shard, *_) = (
        shard for source, shard in verdicts_of(recipe.folder, trails) if shard.removed.documents > 500
    )
    assert len(RemovalCandidates(recipe.folder, shard, 1, 902)()) == 1
    clusters = np.unique(np.array([row["cluster_id"] for row in table_of(recipe, "clusters")], np.uint64))
    assert len(ClusterMembers(recipe.folder, shard, clusters)()) <= 33


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50)), st.integers(1, 120))
def test_pairs_are_divided_evenly_among_sources(lost, pairs):
    shares = even_shares(lost, pairs)
    assert sum(shares.values()) == min(pairs, sum(lost.values()))
    for source, share in shares.items():
        assert share <= lost[source]
        if share < lost[source]:
            assert share >= max(shares.values()) - 1


@given(st.integers(0, 2**32), st.integers(2, 8))
def test_steps_equal_a_breadth_first_search(seed, count):
    chance = np.random.default_rng(seed)
    keys = chance.integers(0, 6, (count, 3)).astype(np.uint64)
    reached, steps = {0: 0}, 0
    while True:
        steps += 1
        new = {
            j for i in reached for j in range(count)
            if j not in reached and any(a == b for a, b in zip(keys[i], keys[j], strict=True))
        }  # fmt: skip
        if not new:
            break
        reached |= dict.fromkeys(new, steps)
    assert steps_between(keys, 0, count - 1) == reached.get(count - 1)


def test_audit_is_printed_and_shown_in_report_and_card(chains):
    recipe = chains.load()
    build_here(recipe)
    said = zyda_here("audit", str(chains.path), "--pairs", "20")
    assert said.returncode == 0, said.stderr
    gone = sum(row["reason"] == "duplicate" for row in table_of(recipe, "removed"))
    assert re.match(
        rf"Audit: of {gone} documents that were removed as near-duplicates, 20 were compared: \d+ have a kept document .* "
        r"\([\d.]+%\) have no kept document that similar\.",
        said.stdout,
    )
    assert said.stdout.count("was kept: Jaccard") == 20
    assert re.search(r"^  -w\d+", said.stdout, re.MULTILINE)
    card = recipe.folder.read("published/README.md").decode()
    assert PublishedCorpus.of(recipe).manifest.audits["audit"].sentence() in card
    page = Path(write_report(recipe)).read_text()
    assert "The removed documents that are least similar to the kept ones" in page
    assert page.count("was kept: Jaccard") == 20


def test_audit_of_a_cleaned_build_raises(corpus):
    said = zyda_here("audit", corpus.write())
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert "nothing has been built there yet" in said.stderr
    recipe = corpus.load()
    build_here(recipe)
    recipe.folder.delete(next(p for p in recipe.folder.files("work/manifests") if "/audit-" in p))
    said = zyda_here("audit", str(corpus.path))
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert "work files of the last build are missing" in said.stderr
    assert (
        "Similarity of removed documents" in Path(write_report(recipe)).read_text()
    )  # the audit can be repeated from the published files


def test_corpus_without_duplicates_has_an_empty_audit(corpus):
    recipe = corpus.load(sources=corpus.recipe["sources"][:1])
    build_here(recipe)
    assert last_audit(Round(recipe, 1)).artifacts[0].rows == 0
    assert (
        PublishedCorpus.of(recipe).manifest.audits["audit"].sentence()
        == "No document was removed as a near-duplicate of another one of this corpus."
    )
    said = zyda_here("audit", str(corpus.path))
    assert (said.returncode, said.stdout) == (
        0,
        "No document was removed as a near-duplicate of another one of this corpus.\n",
    )


def test_shares_and_lengths_are_counted():
    table = pa.table(
        {
            "doc_id": [1, 2, 3, 4],
            "source": ["a", "b", "b", "b"],
            "jaccard": pa.array([0.1, 0.5, 0.85, 1.0], pa.float32()),
            "characters": [40, 10, 20, 30],
        }
    )
    headline = AuditCounts(pairs=4, unlike=2, threshold=0.7, removed=4)
    a, b, every = by_source(table, headline)
    assert (a.pairs, a.below) == (1, (1, 1, 1, 1, 1, 1))
    assert (b.pairs, [round(3 * share) for share in b.below]) == (3, [0, 0, 1, 1, 2, 1])
    assert (every.name, every.pairs) == ("all", 4)
    assert by_length(table, headline) == [(10, 1.0), (20, 0.5), (30, pytest.approx(1 / 3)), (40, 0.5)]


def test_pair_in_a_shared_bucket_is_one_step_apart(corpus):
    text = prose("near")
    write_rows(corpus.folder / "in/best-5.parquet", rows(near=text))
    write_rows(corpus.folder / "in/worst-5.arrow", rows(near_too=edited(text)))
    recipe = corpus.load()
    build_here(recipe)
    assert all(row["steps"] == 1 and row["buckets"] > 0 for row in table_of(recipe, "audit"))
