"""Clusters of real text equal a brute-force search: pairs are found at the rate of the formula.

Needs the corpora in ../shared: three versions of one manual, which overlap heavily, and two others.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array
from small_corpus import build_here, table_of

from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.recipe.loading import load_recipe

pytestmark = pytest.mark.slow

SOURCES = ("powershell-7.6", "powershell-7.5", "powershell-5.1", "powershell-concepts", "peps")
WIDTH = 25


@pytest.fixture(scope="module")
def real(shared, tmp_path_factory):
    """Build the corpus of the five real sources; return its recipe."""
    folder = tmp_path_factory.mktemp("real")
    lines = "".join(f"  - {{name: {s}, files: {shared}/corpora/{s}/*}}\n" for s in SOURCES)
    tokenizer = shared / "assets/20B_tokenizer.json"
    (folder / "recipe.yaml").write_text(
        f"name: real\nstorage: {folder}\ntokenizer: {tokenizer}\nsources:\n{lines}"
    )
    recipe = load_recipe(str(folder / "recipe.yaml"))
    build_here(recipe)
    return recipe


@pytest.fixture(scope="module")
def documents(real):
    """Return every ingested document's id and text, and their band rows (band, key, doc_id)."""
    folder = real.folder

    def read(stage, columns):
        paths = [path for path in folder.files(f"work/{stage}") if path.endswith(".parquet")]
        return pa.concat_tables([pq.read_table(folder.path(path), columns=columns) for path in paths])

    texts = read("ingest", ["doc_id", "text"]).sort_by("doc_id")
    return texts, read("minhash", ["band", "key", "doc_id"])


@pytest.fixture(scope="module")
def similarities(documents):
    """Return the exact Jaccard similarity of every pair of documents: (n, n) float, upper triangle."""
    texts = documents[0].column("text").to_pylist()
    columns, counts = list[np.ndarray](), list[int]()
    for text in texts:
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.uint64)
        n = max(1, len(points) - WIDTH + 1)
        hashed = np.zeros(n, np.uint64)
        for i in range(min(WIDTH, len(points))):
            hashed = hashed * np.uint64(0x100000001B3) + points[i : i + n] * np.uint64(0x9E3779B97F4A7C15)
        columns.append(np.unique(hashed))
        counts.append(len(columns[-1]))
    _, places = np.unique(np.concatenate(columns), return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    matrix = csr_array((np.ones(len(places), np.int32), places, indptr), shape=(len(texts), places.max() + 1))
    common = (matrix @ matrix.T).toarray().astype(np.float64)
    sizes = np.array(counts, np.float64)
    return np.triu(common / (sizes[:, None] + sizes[None, :] - common), 1)


def test_pairs_are_found_at_the_rate_of_the_formula(documents, similarities):
    """In each range of similarity, the share of pairs that share a bucket is 1-(1-J^16)^8.

    Pairs share documents, so their outcomes are not independent: the tolerance is four standard errors of as many
    independent pairs as they have documents.
    """
    texts, band_rows = documents
    ids = texts.column("doc_id").to_numpy()
    found = np.zeros(similarities.shape, np.bool_)
    order = band_rows.sort_by([("band", "ascending"), ("key", "ascending")])
    keys = order.column("key").to_numpy()
    bands = order.column("band").to_numpy()
    places = np.searchsorted(ids, order.column("doc_id").to_numpy())
    starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]) | (bands[1:] != bands[:-1]), True])
    for low, high in pairwise(starts):
        if high - low > 1:
            bucket = places[low:high]
            found[np.ix_(bucket, bucket)] = True
    edges = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0001]
    tested = 0
    for low, high in pairwise(edges):
        pairs = np.argwhere((similarities >= low) & (similarities < high))
        if len(pairs) < 30:
            continue
        exact = similarities[pairs[:, 0], pairs[:, 1]]
        expected = 1 - (1 - exact**16) ** 8
        rate = found[pairs[:, 0], pairs[:, 1]].mean()
        independent = len(np.unique(pairs)) / 2
        error = np.sqrt(np.mean(expected * (1 - expected)) / independent)
        print(
            f"J {low:.2f}-{min(high, 1):.2f}: {len(pairs):6,} pairs, found {rate:.3f}, expected {expected.mean():.3f} +- {error:.3f}"
        )
        assert abs(rate - expected.mean()) <= 4 * error + 1e-9
        tested += 1
    assert tested >= 5
    unlike = (similarities < 0.3) & np.triu(found, 1)
    assert not unlike.any()


def test_clusters_are_exactly_the_chains_of_shared_buckets(real, documents):
    _, band_rows = documents
    parent = {}

    def root(document):
        while parent.setdefault(document, document) != document:
            document = parent[document]
        return document

    first = {}
    for band, key, document in zip(*(band_rows.column(i).to_pylist() for i in range(3)), strict=True):
        other = first.setdefault((band, key), document)
        low, high = sorted((root(other), root(document)))
        parent[high] = low
    groups = {}
    for document in parent:
        groups.setdefault(root(document), set()).add(document)
    expected = {(document, min(group)) for group in groups.values() if len(group) > 1 for document in group}
    assert {(row["doc_id"], row["cluster_id"]) for row in table_of(real, "clusters")} == expected


def test_removals_follow_the_rule_exactly(real):
    clusters = {}
    for row in table_of(real, "clusters"):
        clusters.setdefault(row["cluster_id"], []).append(row["doc_id"])
    expected = {}
    for members in clusters.values():
        best = min(int(sources_of(np.array([m], np.uint64))[0]) for m in members)
        kept = min(members)
        for member in members:
            if int(sources_of(np.array([member], np.uint64))[0]) != best:
                expected[member] = kept
    assert {row["doc_id"]: row["kept_doc_id"] for row in table_of(real, "removed")} == expected
    assert len(expected) > 700


def test_token_counts_equal_the_tokenizer_for_every_document(real, shared):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(shared / "assets/20B_tokenizer.json"))
    folder = real.folder
    for path in folder.files("work/ingest"):
        if path.endswith(".parquet"):
            table = pq.read_table(folder.path(path), columns=["text", "n_tokens"])
            encoded = tokenizer.encode_batch_fast(table.column("text").to_pylist(), add_special_tokens=False)
            assert table.column("n_tokens").to_pylist() == [len(one) for one in encoded]
