"""Rounds of deduplication: each reads the remaining documents of the previous round, and equal texts are found."""

import hashlib
import string
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import build_here, contents, edited, prose, rows, table_of, write_rows, zyda_here

from zyda_flows.flows.dashboard.report_artifact import write_report
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.kinds import ExactRound
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.signatures.edges import star_edges
from zyda_flows.tasks.signatures.exact import text_keys
from zyda_flows.tasks.storage.folder import Folder

PUNCTUATION = {*string.punctuation}
TWO = [{"exact": "normalised", "scope": "global"}, {"scope": "global"}]


def words_of(text):
    """Fold a text as word shingles do, in plain Python."""
    kept = "".join(
        c for c in unicodedata.normalize("NFC", text)
        if c not in PUNCTUATION and not unicodedata.category(c).startswith("P")
    )  # fmt: skip
    return tuple("".join(c.lower()[0] for c in kept).split())


@settings(deadline=None)
@given(
    st.lists(st.text("ab A.é!漢🙂\u0301\u00a0", max_size=12), min_size=1, max_size=12),
    st.sampled_from(["text", "normalised"]),
)
def test_equal_texts_have_equal_keys(texts, exact):
    keys, has_keys = text_keys(pa.array(texts, pa.large_string()), ExactRound(exact=exact))
    folded = [words_of(text) if exact == "normalised" else text for text in texts]
    assert has_keys.tolist() == [bool(one) for one in folded]
    for i, one in enumerate(folded):
        for j, other in enumerate(folded):
            assert (keys[i] == keys[j]).all() == (one == other)


def test_keys_of_texts_are_blake2():
    keys, _ = text_keys(pa.array(["naïve"], pa.large_string()), ExactRound(exact="text"))
    assert keys.tobytes() == hashlib.blake2b("naïve".encode(), digest_size=16).digest()


def test_words_with_equal_64_bit_hashes_have_different_keys():
    """Thue-Morse words have equal hashes by every polynomial modulo 2**64."""
    word = "".join("ab"[i.bit_count() % 2] for i in range(2048))
    texts = pa.array([word, word.translate(str.maketrans("ab", "ba"))], pa.large_string())
    keys, _ = text_keys(texts, ExactRound(exact="normalised"))
    assert (keys[0] != keys[1]).any()


def test_documents_share_a_bucket_only_if_all_128_bits_are_equal():
    keys = np.array([[1, 1], [1, 2], [1, 1], [2, 1], [1, 2], [3, 0]], np.uint64)
    found = star_edges(keys, np.arange(10, 16, dtype=np.uint64)).to_pylist()
    assert sorted((row["a"], row["b"]) for row in found) == [(10, 12), (11, 14)]


@pytest.fixture
def twins(corpus):
    text = prose("twin", 120)
    others = {
        "same": text, "same_words": f"  {text.upper()}!", "near": edited(text), "far": prose("far", 120),
        "nothing": "", "no_words": "?!", "no_words_either": "...",
    }  # fmt: skip
    write_rows(corpus.folder / "in/worst-7.arrow", rows(**others))
    write_rows(corpus.folder / "in/best-7.parquet", rows(first=text))
    return corpus


def gone(recipe, stage):
    names = {}
    for source in recipe.sources:
        for path in Folder(recipe.storage).files(f"{recipe.corpus}/work/ingest/{source.name}"):
            if path.endswith(".parquet"):
                table = pa.parquet.read_table(Folder(recipe.storage).path(path), columns=["doc_id", "name"])
                names |= dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return {
        names[row["doc_id"]]: row["reason"] for row in table_of(recipe, "removed") if row["stage"] == stage
    }


@pytest.mark.parametrize(
    ("exact", "reason", "expected"),
    [
        ("text", "exact_duplicate", {"same", "worst_copy", "exact_copy_of_middle_alone", "same_short"}),
        (
            "normalised",
            "same_words",
            {"same", "same_words", "worst_copy", "exact_copy_of_middle_alone", "same_short"},
        ),
    ],
)
def test_exact_round_removes_exactly_the_equal_texts(twins, exact, reason, expected):
    recipe = twins.load(dedup={"exact": exact})
    ledger = build_here(recipe)
    assert gone(recipe, "removals") == dict.fromkeys(expected, reason)
    assert "audit" not in recipe.folder.read("published/README.md").decode().split("## Files")[0]
    assert ledger.removed("removals").documents == len(expected)


@pytest.mark.slow
def test_second_round_reads_remaining_documents_and_has_its_accounts(twins):
    recipe = twins.load(dedup=TWO)
    ledger = build_here(recipe)
    first, second = gone(recipe, "removals"), gone(recipe, "removals2")
    assert {"same", "same_words"} <= first.keys()
    assert set(first.values()) == {"same_words"}
    assert "near" in second
    assert not first.keys() & second.keys()
    assert set(second.values()) == {"duplicate"}
    assert ledger.removed("removals").documents == len(first)
    assert ledger.removed("removals2").documents == len(second)
    second_round = {row["doc_id"] for row in table_of(recipe, "clusters2")}
    assert not second_round & {
        row["doc_id"] for row in table_of(recipe, "removed") if row["stage"] == "removals"
    }
    assert {"cluster_id", "cluster_id2"} <= table_of(recipe, "best")[0].keys()
    assert "Documents with the same words" in recipe.folder.read("published/README.md").decode()
    write_report(recipe)
    (row, *_) = (row for row in table_of(recipe, "removed") if row["stage"] == "removals2")
    said = zyda_here("explain", str(twins.path), str(row["doc_id"]))
    assert f"cluster {row['cluster_id']}" in said.stdout
    assert zyda_here("audit", str(twins.path)).returncode == 0


def test_explain_reports_a_kept_document_that_a_later_round_removed(twins):
    text = prose("first to last", 150)
    write_rows(twins.folder / "in/only.jsonl", rows(near=edited(text, 2), kept=text, gone=text))
    rounds = [{"exact": "text", "scope": "global"}, {"scope": "global", "verify": {"jaccard": 0.5}}]
    recipe = twins.load(dedup=rounds, sources=[{"name": "only", "files": "in/only.jsonl"}])
    build_here(recipe)
    first, second = sorted(table_of(recipe, "removed"), key=lambda row: row["stage"])
    assert (first["stage"], second["stage"], first["kept_doc_id"]) == (
        "removals",
        "removals2",
        second["doc_id"],
    )
    assert (
        "(the kept document was later removed by deduplication 2)"
        in zyda_here("explain", str(twins.path), str(first["doc_id"])).stdout
    )
    twins.load(dedup=rounds[0], sources=[{"name": "only", "files": "in/only.jsonl"}])
    said = zyda_here("explain", str(twins.path), str(second["doc_id"])).stdout  # from the published files
    assert f"cluster {second['cluster_id']}" in said


@pytest.mark.slow
def test_changed_round_reuses_artifacts_of_other_rounds(twins):
    recipe = twins.load(dedup=TWO)
    build_here(recipe)
    before = recipe.folder.written("work")
    changed = twins.load(dedup=[TWO[0], {"scope": "across", "verify": {"jaccard": 0.9}}])
    build_here(changed)
    new = {path for path in changed.folder.written("work") if path not in before}
    stages = {path.split("/")[1] for path in new if path.endswith(".parquet")}
    assert "verify" in stages
    assert not stages & {"ingest", "minhash", "edges", "clusters", "rules"}
    fresh = twins.load(
        storage=str(twins.folder / "fresh"), dedup=[TWO[0], {"scope": "across", "verify": {"jaccard": 0.9}}]
    )
    build_here(fresh)
    assert contents(changed) == contents(fresh)


def test_build_with_an_added_file_equals_a_fresh_build(twins):
    recipe = twins.load(dedup=TWO)
    build_here(recipe)
    write_rows(twins.folder / "in/worst-8.arrow", rows(late=prose("far", 120), later=prose("late", 120)))
    build_here(recipe)
    fresh = twins.load(dedup=TWO, storage=str(twins.folder / "fresh"))
    build_here(fresh)
    assert contents(recipe) == contents(fresh)


def test_published_recipe_can_be_built_again(twins, tmp_path):
    recipe = twins.load(dedup=TWO)
    build_here(recipe)
    written = yaml.safe_load(
        recipe.folder.read("published/README.md").decode().split("```yaml\n")[1].split("```")[0]
    )
    path = twins.folder / "again.yaml"
    path.write_text(yaml.safe_dump({**written, "storage": str(tmp_path / "again")}))
    assert load_recipe(str(path)).rounds == recipe.rounds


def test_stages_of_a_second_round_have_its_number(twins):
    recipe = twins.load(dedup=TWO)
    single_round = list(pipeline.reasons(twins.load()))
    after = single_round.index("removals") + 1
    assert list(pipeline.reasons(recipe)) == [*single_round[:after], "removals2", *single_round[after:]]


@pytest.mark.parametrize(
    ("dedup", "said"),
    [
        ([], "dedup: an empty round"),
        ([{}], "dedup: an empty round"),
        ([{"exact": "text"}, {}], "dedup: an empty round"),
        ({"exact": "bytes"}, "dedup.exact: expected 'text' or 'normalised' (found 'bytes')"),
        ({"exact": "text", "bands": 8}, "dedup: exact: bands applies to near-duplicates only"),
        ([{"exact": "text"}, {"width": 0}], "dedup[1].width"),
        ([{"width": 9}, {"exact": "text", "width": 9}], "dedup[1]: exact: width applies to near-duplicates only"),
        ([{"exact": "text"}] * 10, "dedup: expected at most 9 items"),
        ("exact", "dedup"),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_round_is_a_one_line_error(corpus, dedup, said):
    with pytest.raises(BadRecipe) as caught:
        corpus.load(dedup=dedup)
    (line,) = str(caught.value).splitlines()
    assert said in line
    assert line.split("recipe.yaml")[1][0] == ":"
