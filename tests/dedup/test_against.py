"""Documents that are similar to another published corpus are removed, and the other corpus does not change."""

import hashlib
import json
import random
import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from small_corpus import (
    SHARED_BY_ALL,
    Corpus,
    build_here,
    contents,
    edited,
    kept_names,
    prose,
    published,
    rows,
    table_of,
    write_rows,
    zyda_here,
)

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.reference import matches
from zyda_flows.tasks.dedup.reference import texts as matched_texts
from zyda_flows.tasks.errors import BadRecipe, Denied, TooMuchLost
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.planning.watching import detect_changes
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures import bands, index
from zyda_flows.tasks.signatures.keys import keys_of_texts
from zyda_flows.tasks.storage import parts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import FOOTERS

WIDTH = 25
RULES = {"none": {}, "containment": {"verify": {"containment": 0.9}}, "jaccard": {"verify": {"jaccard": 0.9}}}


def shingles(text):
    return {text[i : i + WIDTH] for i in range(max(1, len(text) - WIDTH + 1))} if text else set()


def documents_of(place, name):
    """Return the name, text and band keys of each document of an input, in the order of the files."""
    found = []
    for path in sorted(place.glob(name)):
        for row in pq.read_table(path).to_pylist():
            keys, has_any = keys_of_texts(pa.array([row["text"]], pa.large_string()), MinHashRound())
            found.append((row["name"], row["text"], keys[0].tolist() if has_any[0] else []))
    return found


@pytest.fixture(scope="module")
def old(tmp_path_factory, compiled):
    """A published corpus, with the documents of a family of near-copies, of which a filter has removed some."""
    corpus = Corpus(tmp_path_factory.mktemp("old"))
    family = {f"family{i}": edited(prose("family"), i) for i in range(1, 9)}
    chance = random.Random(2)
    steps = {f"step{i}": " ".join(chance.sample(prose("steps").split(), 200)) for i in range(20)}
    write_rows(corpus.folder / "in/best-5.parquet", rows(**family, **steps, unwanted=prose("unwanted")))
    corpus.recipe["sources"][0]["keep"] = "name <> 'unwanted'"
    recipe = corpus.load(name="old", dedup={"verify": {"containment": 0.99}})
    build_here(recipe)
    return recipe


def new_corpus(folder, old, **changes):
    """Return a corpus of new documents, some of them similar to documents of the old corpus."""
    corpus = Corpus(folder)
    shutil.rmtree(folder / "in")
    fresh = {
        "alone": prose("new and alone"), "family_copy": edited(prose("family"), 10), "exact": prose("best alone"),
        "two_edits": edited(prose("best alone"), 2), "far_edits": edited(prose("best alone"), 20),
        "like_the_unwanted": prose("unwanted"), "shared": edited(SHARED_BY_ALL), "no_text": "",
        "twin_1": prose("new twin"), "half": " ".join(prose("best alone").split()[:150]),
    }  # fmt: skip
    write_rows(folder / "in/fresh-0.parquet", rows(**fresh))
    more = {f"more{i}": edited(prose(f"more{i % 7}"), i % 3) for i in range(20)}
    write_rows(folder / "in/fresh-1.parquet", rows(**more, family_more=edited(prose("family"), 3)))
    write_rows(folder / "in/other-0.parquet", rows(twin_2=prose("new twin"), guarded=prose("best alone")))
    corpus.recipe |= {
        "sources": [
            {"name": "other", "files": "in/other-*.parquet"}, {"name": "fresh", "files": "in/fresh-*.parquet"},
        ],
        "dedup": {"scope": "global", "against": str(old.folder.url)},
    }  # fmt: skip
    corpus.recipe |= changes
    return corpus


@pytest.fixture
def new(old, tmp_path):
    return new_corpus(tmp_path, old)


def with_rule(corpus, rule, **more):
    return {**corpus.recipe["dedup"], **RULES[rule], **more}


def names_of(recipe, *, stage):
    """Return the rows of `removed` that a stage wrote, by the documents' names."""
    names = {}
    for source in recipe.sources:
        for path in recipe.folder.files(f"work/ingest/{source.name}"):
            if path.endswith(".parquet"):
                table = pq.read_table(recipe.folder.path(path), columns=["doc_id", "name"])
                names |= dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return {names[row["doc_id"]]: row for row in table_of(recipe, "removed") if row["stage"] == stage}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_documents_similar_to_the_other_corpus_are_removed(old, new, rule):
    before = contents(old)
    recipe = new.load(dedup=with_rule(new, rule))
    build_here(recipe)
    assert contents(old) == before

    there = {row["doc_id"]: row["text"] for source in old.sources for row in table_of(old, source.name)}
    keys_there = {}
    for doc_id, text in there.items():
        keys, has_any = keys_of_texts(pa.array([text], pa.large_string()), MinHashRound())
        keys_there[doc_id] = keys[0].tolist() if has_any[0] else []
    gone = names_of(recipe, stage="against")
    place = new.folder / "in"
    for name, text, keys in documents_of(place, "*.parquet"):
        shared = Counter()
        for doc_id, others in keys_there.items():
            if both := sum(a == b for a, b in zip(keys, others, strict=False)):
                shared[doc_id] = both
        mine, likeness = shingles(text), {}
        for doc_id in shared:
            other = shingles(there[doc_id])
            both = len(mine & other)
            likeness[doc_id] = {"jaccard": both / len(mine | other), "containment": both / len(mine)}
        if rule == "none":
            candidates = {doc_id: (-n, doc_id) for doc_id, n in shared.items()}
        else:
            candidates = {i: (-s[rule], i) for i, s in likeness.items() if s[rule] >= 0.9 - 1e-9}
        assert (name in gone) == bool(candidates), name
        if candidates:
            row = gone[name]
            assert row["matched_doc_id"] == min(candidates, key=candidates.get)
            assert row["matched_corpus"] == "old"
            assert row["reason"] == "in_other_corpus"
            if rule != "none":
                assert row["jaccard"] == pytest.approx(likeness[row["matched_doc_id"]]["jaccard"])
                assert row["containment"] == pytest.approx(likeness[row["matched_doc_id"]]["containment"])
    assert {"exact", "shared", "guarded"} <= gone.keys()
    assert not {"alone", "like_the_unwanted", "no_text", "far_edits", "more1"} & gone.keys()
    assert len(kept_names(recipe) & {"twin_1", "twin_2"}) == 1  # the new corpus is still deduplicated


def test_ledger_card_and_explain_report_matches(old, new):
    recipe = new.load()
    ledger = build_here(recipe)
    gone = names_of(recipe, stage="against")
    assert ledger.removed("against").documents == len(gone)
    assert "against: old, 3" in zyda_here("check", str(new.path)).stdout
    assert ledger.stages[:3] == ("ingest", "against", "minhash")
    said = zyda_here("explain", str(new.path), str(gone["exact"]["doc_id"])).stdout
    there = gone["exact"]["matched_doc_id"]
    assert "removed by stage against, reason in_other_corpus: it or a near-duplicate o" in said
    assert f"matched_corpus old, matched_doc_id {there}" in said
    assert said.endswith("from this document to the document of the other corpus:\n(no difference)\n")
    edit = zyda_here("explain", str(new.path), str(gone["two_edits"]["doc_id"])).stdout
    assert "\n-" in edit.partition("from this document to the document of the other corpus:")[2]
    assert f"(`against`) removed {len(gone)} documents" in recipe.folder.read("published/README.md").decode()


@pytest.mark.slow
def test_decisions_do_not_depend_on_the_size_of_parts(old, new, monkeypatch):
    dedup = with_rule(new, "containment")
    recipe = new.load(dedup=dedup)
    build_here(recipe)
    expected = sorted(table_of(recipe, "removed"), key=lambda row: row["doc_id"])
    monkeypatch.setattr(bands, "RANGE_ROWS", 20)
    monkeypatch.setattr(matches, "GROUP_ROWS", 1)
    monkeypatch.setattr(matches, "GROUP_SHARDS", 1)
    monkeypatch.setattr(matched_texts, "READ_BYTES", 2000)
    monkeypatch.setattr(matched_texts, "GROUP_ROWS", 1)
    monkeypatch.setattr(parts, "GROUP_BYTES", 1)
    monkeypatch.setattr("zyda_flows.tasks.storage.tables.PART_BYTES", 1000)
    cut = new.load(name="cut", dedup=dedup, shard_mib=0.002)
    with replaced_limits(cluster_bytes=100):
        build_here(cut)
    assert sorted(table_of(cut, "removed"), key=lambda row: row["doc_id"]) == expected


def test_index_has_exactly_the_keys_of_published_documents(old, tmp_path, monkeypatch):
    monkeypatch.setattr(bands, "RANGE_ROWS", 5)
    monkeypatch.setattr(index, "GROUP_ROWS", 2)
    corpus = Corpus(tmp_path)
    corpus.recipe["sources"][2]["exempt"] = True
    recipe = corpus.load(dedup=[{"scope": "global", "bands": 14, "rows": 8}, {"exact": "text"}])
    build_here(recipe)
    manifest = json.loads(recipe.folder.read("published/manifest.json"))
    assert manifest["bands"]["bands2"]["parameters"] == {"version": 1, "exact": "text"}
    for place, dedup in zip(("bands", "bands2"), recipe.rounds, strict=True):
        expected = set()
        for source in recipe.sources:
            for row in table_of(recipe, source.name):
                keys, has_any = keys_of_texts(pa.array([row["text"]], pa.large_string()), dedup)
                for band, key in enumerate(keys[0].tolist() if has_any[0] else ()):
                    low = (key[1],) if dedup.exact else ()
                    expected.add((band, key[0] if dedup.exact else key, row["doc_id"], *low))
        files = [path for path in published(recipe).files(place) if path.endswith(".parquet")]
        found = []
        for path in files:
            table = pq.read_table(published(recipe).path(path))
            as_rows = [tuple(row.values()) for row in table.to_pylist()]
            assert as_rows == sorted(as_rows)
            found += as_rows
        assert len(files) > dedup.key_bands or dedup.exact
        assert (set(found), len(found)) == (expected, len(expected))
        documents = {row[2] for row in expected}
        assert manifest["bands"][place]["documents"] == len(documents)


def test_protected_and_exempt_sources_lose_nothing(old, new):
    for kind in ("protect", "exempt"):
        sources = [{**new.recipe["sources"][0], kind: True}, new.recipe["sources"][1]]
        recipe = new.load(name=kind, sources=sources)
        build_here(recipe)
        assert "guarded" in kept_names(recipe)
        assert "exact" in names_of(recipe, stage="against")


def test_source_that_is_no_longer_protected_loses_matches(old, new):
    protected = [{**new.recipe["sources"][0], "protect": True}, new.recipe["sources"][1]]
    build_here(new.load(sources=protected))
    recipe = new.load()
    build_here(recipe)
    assert "guarded" in names_of(recipe, stage="against")
    assert "guarded" not in kept_names(recipe)


def test_copies_of_nearly_equal_pages_are_found(tmp_path, compiled):
    """The pages share all buckets, so only their texts differ."""
    words = prose("page", 600).split()
    pages = {f"page{i}": " ".join([*words[:300], f"number{i}", *words[300:]]) for i in range(60)}
    corpus = Corpus(tmp_path / "there")
    shutil.rmtree(corpus.folder / "in")
    write_rows(corpus.folder / "in/pages.parquet", rows(**pages))
    only = [{"name": "only", "files": "in/*.parquet"}]
    there = corpus.load(name="there", sources=only, dedup={"scope": "global", "verify": {"jaccard": 1.0}})
    build_here(there)
    new = Corpus(tmp_path / "new")
    shutil.rmtree(new.folder / "in")
    copied = ("page3", "page30", "page59")
    write_rows(new.folder / "in/pages.parquet", rows(**{name: pages[name] for name in copied}))
    dedup = {"scope": "global", "verify": {"jaccard": 1.0}, "against": there.folder.url}
    recipe = new.load(sources=only, dedup=dedup)
    build_here(recipe)
    numbers = {row["doc_id"]: row["name"] for row in table_of(there, "only")}
    gone = names_of(recipe, stage="against")
    assert {name: numbers[row["matched_doc_id"]] for name, row in gone.items()} == {n: n for n in copied}


def test_corpus_against_itself_raises_for_any_url(tmp_path):
    corpus = Corpus(tmp_path)
    own = corpus.load()
    build_here(own)
    link = tmp_path / "link"
    link.symlink_to(own.folder.url)
    for url in (own.folder.url, str(link), f"file://{own.folder.url}", f"{own.folder.url}/published/"):
        with pytest.raises(BadRecipe, match="a corpus cannot be against itself"):
            build_here(corpus.load(dedup={"against": url}))


def test_manifest_names_the_other_corpus_and_explain_notices_a_change(tmp_path):
    corpus = Corpus(tmp_path / "there")
    there = corpus.load(name="there", sample=0.9)
    build_here(there)
    new = new_corpus(tmp_path / "new", there)
    recipe = new.load()
    build_here(recipe)
    (named,) = PublishedCorpus.of(recipe).manifest.against
    digest = hashlib.sha256(there.folder.read("published/manifest.json")).hexdigest()
    assert (named.name, named.sha256) == ("there-sample-0.9", digest)
    card = recipe.folder.read("published/README.md").decode()
    assert f"were removed: `there-sample-0.9` (SHA-256 of its manifest begins {digest[:8]})." in card
    gone = next(iter(names_of(recipe, stage="against").values()))
    assert gone["matched_corpus"] == "there-sample-0.9"
    more = {f"late{i}": prose(f"late{i}") for i in range(40)}
    write_rows(corpus.folder / "in/best-0.parquet", rows(**more, best_alone=prose("best alone")))
    build_here(there)
    said = zyda_here("explain", str(new.path), str(gone["doc_id"])).stdout
    assert "(the corpus there-sample-0.9 is missing or has changed since this build)" in said


def test_published_folder_is_enough_and_keys_need_no_texts(old, new, tmp_path):
    alone = tmp_path / "alone"
    shutil.copytree(old.folder.path("published"), alone)
    recipe = new.load()
    build_here(recipe)
    expected = table_of(recipe, "removed")
    for source in old.sources:
        shutil.rmtree(alone / source.name)
    bare = new.load(name="bare", dedup={"scope": "global", "against": str(alone)})
    build_here(bare)
    assert table_of(bare, "removed") == expected
    verified = new.load(name="verified", dedup=with_rule(new, "jaccard", against=str(alone)))
    with pytest.raises(
        BadRecipe, match=r"recipe.yaml:\d+: dedup.against\[0\]: .*is missing, and verify reads it"
    ):
        build_here(verified)


def test_rounds_and_exact_keys(old, tmp_path):
    corpus = Corpus(tmp_path / "there")
    there = corpus.load(name="there", dedup=[{"exact": "normalised"}, {"scope": "global"}])
    build_here(there)
    new = new_corpus(tmp_path / "new", there)
    rounds = [
        {"exact": "normalised", "against": there.folder.url},
        {"scope": "global", "against": there.folder.url},
    ]
    recipe = new.load(dedup=rounds)
    ledger = build_here(recipe)
    first, second = names_of(recipe, stage="against"), names_of(recipe, stage="against2")
    assert first.keys() == {"exact", "guarded"}
    assert {row["reason"] for row in first.values()} == {"words_in_other_corpus"}
    assert {"two_edits", "shared"} <= second.keys()
    assert {row["reason"] for row in second.values()} == {"in_other_corpus"}
    assert ledger.stages[:7] == (
        "ingest",
        "against",
        "minhash",
        "removals",
        "against2",
        "minhash2",
        "removals2",
    )


def test_corpora_of_equal_names_are_distinguished_and_the_first_match_named(old, new, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(old.folder.path("published"), copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").unlink()
    (copy / "manifest.json").write_text(json.dumps({**manifest, "software": "another"}))
    recipe = new.load(dedup={"scope": "global", "against": [str(copy), old.folder.url]})
    build_here(recipe)
    names = {row["matched_corpus"] for row in names_of(recipe, stage="against").values()}
    (name,) = names
    assert name.startswith("old@")
    other = new.load(name="other", dedup={"scope": "global", "against": [old.folder.url, str(copy)]})
    build_here(other)
    assert {row["matched_corpus"] for row in names_of(other, stage="against").values()}.isdisjoint(names)


def test_losses_to_other_corpora_count(old, new):
    with pytest.raises(TooMuchLost, match="source other: deduplication would remove"):
        build_here(new.load(max_loss=0.3))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["none", "containment"])
def test_added_file_is_compared_alone(old, new, rule):
    recipe = new.load(dedup=with_rule(new, rule))
    build_here(recipe)
    before = set(recipe.folder.files("work"))
    write_rows(new.folder / "in/fresh-2.parquet", rows(late=edited(prose("family"), 3), later=prose("late")))
    build_here(recipe)
    made = {path for path in recipe.folder.files("work") if path not in before and path.endswith(".parquet")}
    shard_keys = [path for path in made if path.split("/")[1] in ("ingest", "minhash", "against", "classify")]
    assert shard_keys
    assert all(path.rpartition("/")[2].startswith("000002-") for path in shard_keys), shard_keys
    fresh = new.load(dedup=with_rule(new, rule), storage=str(new.folder / "fresh"))
    build_here(fresh)
    assert contents(recipe) == contents(fresh)


def test_other_corpus_that_has_grown_is_compared_again(tmp_path):
    corpus = Corpus(tmp_path / "there")
    there = corpus.load(name="there")
    build_here(there)
    new = new_corpus(tmp_path / "new", there)
    recipe = new.load()
    build_here(recipe)
    assert "alone" in kept_names(recipe)
    assert ledger_if_complete(recipe)
    assert not detect_changes.fn(recipe).changes
    write_rows(corpus.folder / "in/best-9.parquet", rows(late=prose("new and alone")))
    build_here(there)
    assert ledger_if_complete(recipe) is None
    (change,) = detect_changes.fn(recipe).changes
    assert (change.source, len(change.changed)) == (there.folder.url, 1)
    build_here(recipe)
    assert "alone" not in kept_names(recipe)
    assert ledger_if_complete(recipe)


@pytest.mark.slow
def test_damaged_intermediate_files_are_rebuilt(old, new):
    dedup = with_rule(new, "containment")
    recipe = new.load(dedup=dedup)
    build_here(recipe)
    expected = contents(recipe)
    chance, folder, touched = random.Random(4), recipe.folder, Counter()
    for path in folder.files("work"):
        stage = path.split("/")[1]
        if (
            stage not in ("matches", "against", "index")
            or not path.endswith(".parquet")
            or touched[stage] > 4
        ):
            continue
        touched[stage] += 1
        content = bytearray(folder.read(path))
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        folder.delete(path)
        folder.write(path, bytes(content))
        for manifest_path in folder.files("work/manifests"):
            if any(name in manifest_path for name in ("against", "index", "publish", "matches")):
                folder.delete(manifest_path)
        for made in folder.files("work/publish"):
            folder.delete(made)
        FOOTERS.clear()
        build_here(recipe)
        assert contents(recipe) == expected, path
    assert set(touched) == {"matches", "against", "index"}


@pytest.mark.parametrize("place", ["bands", "best"])
def test_damaged_files_of_the_other_corpus_are_reported(old, new, place):
    broken = new.folder / "broken"
    shutil.copytree(old.folder.path("published"), broken)
    for path in [*(broken / place).rglob("*.parquet")]:
        content = bytearray(path.read_bytes())
        for at in range(20, len(content) - 8, 50):
            content[at] ^= 16
        path.unlink()
        path.write_bytes(bytes(content))
    FOOTERS.clear()
    recipe = new.load(dedup=with_rule(new, "containment", against=str(broken)))
    with pytest.raises(
        Denied, match=rf"broken/{place}/.*; zyda verify --repair, with the recipe of that corpus"
    ):
        build_here(recipe)
    assert not recipe.folder.exists("published")


def unlist(published, prefix):
    """Remove the files with a prefix from the table of a published corpus."""
    manifest = json.loads((published / "manifest.json").read_text())
    path = published / manifest["table"]["path"]
    with path.open("rb") as file:
        rows = pq.read_table(file)
    pq.write_table(rows.filter(pc.invert(pc.starts_with(rows["path"], prefix))), path)
    content = path.read_bytes()
    footer = content[-int.from_bytes(content[-8:-4], "little") - 8 :]
    manifest["table"] |= {
        "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "rows": pq.read_metadata(path).num_rows,
        "footer": len(footer), "footer_sha256": hashlib.sha256(footer).hexdigest(),
    }  # fmt: skip
    (published / "manifest.json").write_text(json.dumps(manifest))


def test_faults_are_reported_before_any_work(old, new, tmp_path):
    empty, cut, older = (tmp_path / name for name in ("empty", "cut", "older"))
    empty.mkdir()
    shutil.copytree(old.folder.path("published"), cut)
    first = next((cut / "bands").rglob("*.parquet"))
    first.unlink()
    shutil.copytree(old.folder.path("published"), older)
    manifest = json.loads((older / "manifest.json").read_text())
    del manifest["bands"]
    (older / "manifest.json").unlink()
    (older / "manifest.json").write_text(json.dumps(manifest))
    silent = Corpus(tmp_path / "silent")
    secretive = silent.load(publish_bands=False)
    build_here(secretive)
    assert not [path for path in contents(secretive) if path.startswith("bands")]
    own, unlisted, odd = new.load().folder.url, tmp_path / "unlisted", tmp_path / "odd"
    whole = json.loads((cut / "manifest.json").read_text())
    shutil.copytree(old.folder.path("published"), unlisted)
    unlist(unlisted, "bands/003")
    odd.mkdir()
    (odd / "manifest.json").write_text(json.dumps({**whole, "name": "a\nb"}))
    cases = [
        ({"against": str(empty)}, "no corpus is published there"),
        ({"against": str(cut)}, f"bands/{first.parent.name}/{first.name} is missing"),
        ({"against": str(older)}, "it publishes no band keys"),
        ({"against": secretive.folder.url}, "it publishes no band keys"),
        ({"against": old.folder.url, "width": 13}, "(width 25 there and 13 here)"),
        (
            {"against": old.folder.url, "bands": 14, "rows": 8},
            "values 128 there and 112 here, bands 8 there and 14 here",
        ),
        ({"against": old.folder.url, "exact": "text"}, "exact"),
        ({"against": [old.folder.url, old.folder.url]}, "is there twice"),
        ({"against": [old.folder.url, f"file://{old.folder.url}/published"]}, "is there twice"),
        ({"against": own}, "no corpus is published there"),
        ({"against": str(unlisted)}, "does not list all of its band keys"),
        ({"against": str(odd)}, "is no name of a corpus"),
        ({"against": "\ud800"}, "cannot be read"),
        ({"against": "github://x/y"}, "cannot be read"),
    ]
    for dedup, said in cases:
        recipe = new.load(dedup=dedup)
        with pytest.raises(BadRecipe) as caught:
            build_here(recipe)
        for line in str(caught.value).splitlines():
            assert line.startswith(f"{new.path}:")
            assert ": dedup.against[" in line
            assert said in line
        assert not recipe.folder.exists("work/ingest")


@pytest.mark.parametrize(
    ("against", "said"),
    [
("", "a path is expected, or a URL"), (7, "a URL or a list of URLs is expected"), (None, "a URL or a list"),
        ([f"c{i}" for i in range(256)], "at most 255"),
        ("nosuch://x", "is not a supported kind of URL"),
    ],
)  # fmt: skip
def test_invalid_against_is_a_one_line_error(new, against, said):
    with pytest.raises(BadRecipe) as caught:
        new.load(dedup={"against": against})
    (line,) = str(caught.value).splitlines()
    assert said in line
    assert "secret" not in line


def test_against_a_corpus_in_a_store(old, new, s3):
    there = Folder(f"{s3}/other/old/published")
    for path in published(old).files(""):
        there.write(path, published(old).read(path))
    recipe = new.load(dedup=with_rule(new, "containment"))
    build_here(recipe)
    remote = new.load(name="remote", dedup=with_rule(new, "containment", against=f"{s3}/other/old"))
    build_here(remote)
    assert table_of(remote, "removed") == table_of(recipe, "removed")


def test_many_template_pages_do_not_hide_a_twin(tmp_path, compiled):
    """A bucket returns 16 documents; a twin also shares smaller buckets."""
    template = prose("template", 270)
    pages = {f"page{i}": f"{template} {prose(f'page {i}', 30)}" for i in range(400)}
    corpus = Corpus(tmp_path / "there")
    shutil.rmtree(corpus.folder / "in")
    write_rows(corpus.folder / "in/pages.parquet", rows(**pages))
    only = [{"name": "only", "files": "in/*.parquet"}]
    there = corpus.load(
        name="there", sources=only, dedup={"scope": "global", "verify": {"containment": 0.95}}
    )
    build_here(there)
    assert len(kept_names(there)) == 400
    new = Corpus(tmp_path / "new")
    shutil.rmtree(new.folder / "in")
    fresh = {f"page{i}": edited(pages[f"page{i}"]) for i in range(0, 400, 4)}
    fresh |= {f"fresh{i}": f"{template} {prose(f'fresh {i}', 30)}" for i in range(100)}
    write_rows(new.folder / "in/pages.parquet", rows(**fresh))
    dedup = {"scope": "global", "verify": {"containment": 0.95}, "against": there.folder.url}
    recipe = new.load(sources=only, dedup=dedup)
    build_here(recipe)
    gone = names_of(recipe, stage="against")
    assert gone.keys() == {f"page{i}" for i in range(0, 400, 4)}
    numbers = {row["doc_id"]: row["name"] for row in table_of(there, "only")}
    assert all(numbers[row["matched_doc_id"]] == name for name, row in gone.items())
    assert PublishedCorpus.of(recipe).manifest.ledger.of("publish").documents == 100
