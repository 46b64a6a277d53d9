"""Decisions in very large clusters are exact within the bounds; beyond them, skipped pairs are counted."""

import numpy as np
import pytest
from large_clusters import KINDS, RULES, Maker, cluster, missed
from small_corpus import Corpus, build_here, edited, prose, published, rows, write_rows

from zyda_flows.tasks.accounts.audited import IndexCounts
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup import decisions, large
from zyda_flows.tasks.dedup.large import LargeCluster
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.textkernels.set_similarity import MISSING, find_duplicates


@pytest.fixture(autouse=True)
def few_counters(monkeypatch):
    monkeypatch.setattr(large, "COUNTER_BITS", 20)


@pytest.fixture(scope="module", params=KINDS)
def pages(request):
    return cluster(request.param, 2, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["across", "global"])
def test_index_finds_every_removal(pages, scope):
    outcomes = [missed(pages, *rule, scope) for rule in RULES]
    assert sum(outcome["removed"] for outcome in outcomes) > 50
    assert sum(outcome["missed"] for outcome in outcomes) == 0


def sets_of(found):
    return lambda places: (found[i] for i in places)


def sets_of_numbers(chance, count):
    return chance.integers(1, 2**63, count).astype(np.uint64)


def test_near_copy_is_found_for_each_changed_paragraph():
    """The rarest shingles of a page may all be in the paragraph that its copy lacks."""
    chance = np.random.default_rng(4)
    own, rarest = sets_of_numbers(chance, 300), sets_of_numbers(chance, 60)
    page = np.concatenate([own, rarest])
    copy = np.concatenate([own, sets_of_numbers(chance, 60)])
    others = [
        np.concatenate([own[i::10], sets_of_numbers(chance, 330)]) for i in range(10) for _ in range(20)
    ]
    others.append(
        np.concatenate([rarest, sets_of_numbers(chance, 300)])
    )  # the only other page with these shingles
    found = [page, *others, copy]
    big = LargeCluster(
        sets_of(found), np.arange(len(found)), np.ones(len(found), np.bool_), share=0.8, is_jaccard=False
    )
    holders, shared = big.find_duplicates()
    assert (holders[-1], shared[-1]) == (0, 300)
    assert (holders[:-1] == MISSING).all()


def test_candidates_are_the_members_that_share_most():
    """More pages share rare shingles with a page than are compared with it, and its original is the last of them."""
    chance = np.random.default_rng(5)
    original = sets_of_numbers(chance, 400)
    others = [np.concatenate([original[i : i + 30], sets_of_numbers(chance, 370)]) for i in range(200)]
    copy = np.concatenate([original[:370], sets_of_numbers(chance, 30)])
    found = [*others, original, copy]
    big = LargeCluster(
        sets_of(found), np.arange(len(found)), np.ones(len(found), np.bool_), share=0.9, is_jaccard=False
    )
    assert big.find_duplicates()[0][-1] == len(others)


def template(count):
    """Return pages that share nearly all shingles with all others, each with a later copy."""
    chance = np.random.default_rng(6)
    base = sets_of_numbers(chance, 380)
    whole = [np.concatenate([base, sets_of_numbers(chance, 20)]) for _ in range(count)]
    copies = [np.concatenate([page[:396], sets_of_numbers(chance, 4)]) for page in whole]
    return [*whole, *copies]


def all_pairs(found, *, share, is_jaccard):
    """Decide by the definition, with Python's sets: the first kept document before each that holds enough."""
    kept, holders = list[tuple[int, set[int]]](), list[int]()
    for i, hashes in enumerate(map(set, (of.tolist() for of in found))):
        for k, other in kept:
            both = len(hashes & other)
            size = len(hashes) + len(other) - both if is_jaccard else len(hashes)
            if both >= share * size - 1e-9:
                holders.append(k)
                break
        else:
            holders.append(MISSING)
            kept.append((i, hashes))
    return holders


def combinations(count, shingles):
    """Return pages of ten sections out of fourteen, each in two wordings: all shingles are in a third of all pages."""
    chance = np.random.default_rng(8)
    sections = chance.integers(1, 2**63, (14, 2, shingles)).astype(np.uint64)
    pages = []
    for _ in range(count):
        chosen = np.sort(chance.choice(14, 10, replace=False))
        pages.append(sections[chosen, chance.integers(0, 2, 10)].ravel())
    return pages


def one_template(count):
    """Return pages of a template with a few shingles replaced by others from a small stock."""
    chance = np.random.default_rng(9)
    base, stock = sets_of_numbers(chance, 300), sets_of_numbers(chance, 200)
    pages = []
    for _ in range(count):
        page = base.copy()
        replaced = int(chance.integers(20, 60))
        page[chance.choice(300, replaced, replace=False)] = chance.choice(stock, replaced, replace=False)
        pages.append(page)
    return pages


FREQUENT = {"sections": combinations(300, 6), "template": one_template(200)}


@pytest.mark.parametrize("longest", [10, 1000])
@pytest.mark.parametrize("rule", [("jaccard", 0.8), ("containment", 0.8), ("jaccard", 0.55)], ids=str)
@pytest.mark.parametrize("kind", FREQUENT)
def test_pages_of_frequent_parts_are_compared_exactly(kind, rule, longest):
    """Lists are also as short as in a cluster of thousands: a shingle without a list has a column."""
    found, asked = FREQUENT[kind], {"share": rule[1], "is_jaccard": rule[0] == "jaccard"}
    with replaced_limits(cluster_list=longest):
        big = LargeCluster(sets_of(found), np.arange(len(found)), np.ones(len(found), np.bool_), **asked)
        holders, _ = big.find_duplicates()
    assert holders.tolist() == all_pairs(found, **asked)
    assert 0 < (holders != MISSING).sum() < len(found) - 1
    assert (big.unsure, big.pairs) == (0, 0)


@pytest.mark.parametrize("bound", [{"cluster_words": 1000}, {"cluster_column_bytes": 2000}], ids=str)
def test_skipped_pairs_beyond_the_bounds_are_counted(bound):
    found, asked = FREQUENT["sections"], {"share": 0.8, "is_jaccard": True}
    with replaced_limits(cluster_list=20, **bound):
        big = LargeCluster(sets_of(found), np.arange(len(found)), np.ones(len(found), np.bool_), **asked)
        holders, _ = big.find_duplicates()
    exact = np.array(all_pairs(found, **asked))
    missed = (exact != MISSING) & (holders == MISSING)
    assert missed.sum() <= big.unsure <= big.pairs <= len(found) ** 2 / 2
    assert big.unsure > 0


@pytest.mark.parametrize("share", [0.96, 0.985])
def test_documents_with_skipped_pairs_are_counted(share):
    found = template(600)
    n = len(found)
    big = LargeCluster(sets_of(found), np.arange(n), np.ones(n, np.bool_), share=share, is_jaccard=False)
    holders, _ = big.find_duplicates()
    asked = {"share": share, "is_jaccard": False}
    ends = np.cumsum([0, *map(len, found)])
    exact, _ = find_duplicates(
        np.concatenate(found), ends, np.arange(n), np.ones(n, np.bool_), np.array([0, n]), **asked
    )
    lost = int(((exact != MISSING) & (holders == MISSING)).sum())
    assert (exact != MISSING).sum() == 600
    assert lost <= min(big.unsure, 0.6)


def test_full_index_counts_skipped_pairs_and_finds_most_duplicates():
    hashes, ends = cluster("families", 2, seed=2)
    n = len(ends) - 1
    found = [hashes[ends[i] : ends[i + 1]] for i in range(n)]
    exact, _ = find_duplicates(
        hashes, ends, np.arange(n), np.ones(n, np.bool_), np.array([0, n]), share=0.8, is_jaccard=False
    )
    with replaced_limits(cluster_entries=1 << 14):
        big = LargeCluster(sets_of(found), np.arange(n), np.ones(n, np.bool_), share=0.8, is_jaccard=False)
        holders, _ = big.find_duplicates()
    assert big.index.part < 1
    stay = int((holders == MISSING).sum())
    assert 0 < big.unsure <= stay  # the first 64 were compared with all others
    assert big.unsure <= big.pairs <= n * n / 2
    lost = ((exact != MISSING) & (holders == MISSING)).sum()
    assert lost <= 0.02 * (exact != MISSING).sum()


def test_number_of_members_is_limited_and_the_rest_counted():
    chance = np.random.default_rng(7)
    found = [sets_of_numbers(chance, 50) for _ in range(20)]
    found += [*found]
    with replaced_limits(cluster_members=10):
        big = LargeCluster(sets_of(found), np.arange(40), np.ones(40, np.bool_), share=0.9, is_jaccard=True)
        holders, _ = big.find_duplicates()
    assert (holders != MISSING).sum() == 10
    # 30 documents were kept, and 20 have no room: each of the last 29 skips all documents without room before it.
    assert (big.unsure, big.pairs) == (19, sum(range(1, 20)))


def test_card_audit_and_log_report_decisions_by_an_index(tmp_path, monkeypatch):
    log = list[str]()
    monkeypatch.setattr(decisions, "warn", log.append)
    corpus, text = Corpus(tmp_path), prose("many", 200)
    write_rows(tmp_path / "in/worst-7.arrow", rows(**{f"n{i}": edited(text, i) for i in range(9)}))
    rule = {"scope": "global", "verify": {"containment": 0.9}}
    recipe = corpus.load(dedup=rule)
    with replaced_limits(cluster_bytes=500):
        build_here(recipe)
    found = PublishedCorpus.of(recipe).manifest.audits["audit"]
    assert found.by_index.clusters >= 1
    assert found.by_index.documents >= 9
    assert found.by_index.unsure == 0
    assert log[0].endswith("were judged by an index. The result is that of comparing all pairs.")
    said = found.by_index.sentence()
    assert said in published(recipe).read("README.md").decode()
    monkeypatch.undo()
    whole = corpus.load(dedup=rule, name="whole")
    build_here(whole)
    assert PublishedCorpus.of(whole).manifest.audits["audit"].by_index is None
    assert "index" not in published(whole).read("README.md").decode()


def test_index_counts_of_parts_are_added_up():
    assert IndexCounts(clusters=1, documents=2, unsure=3, pairs=4, cut_pairs=1) + IndexCounts(
        clusters=4, documents=5, unsure=6, pairs=7, cut=2, cut_pairs=3
    ) == IndexCounts(clusters=5, documents=7, unsure=9, pairs=11, cut=2, cut_pairs=4)
    assert len(Maker(1).paragraph(7).split()) == 7
