"""Passages in a build: accounts, published texts and evidence, sources with rights, resumed and changed builds."""

import pytest
from passages_here import repeated_windows
from small_corpus import build_here, contents, prose, rows, table_of, write_rows, zyda_here

from zyda_flows.flows.python.corpus import Corpus
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup import document_names, exchange
from zyda_flows.tasks.errors import BadRecipe, TooMuchLost
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.passages import context_jobs, range_jobs, search
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.textkernels import anchors

LENGTH = 100
SHARED = prose("a shared passage", 60)
OWN = {name: prose(f"own {name}", 50) for name in ("b1", "b2", "m1", "m2", "w1", "w2")}
SOURCES = {
    "best": {"b1": f"{OWN['b1']} {SHARED} end", "b2": OWN["b2"]},
    "middle": {"m1": f"{SHARED}\n{OWN['m1']}", "m2": OWN["m2"]},
    "worst": {"w1": f"naïve {OWN['w1']} {SHARED[30:-30]}", "w2": f"x {SHARED} y", "w3": prose("own b2", 45)},
}
PARTS = [{"length": LENGTH}]


@pytest.fixture
def shared_corpus(corpus):
    """A corpus of three sources that share a passage; no document is a near-duplicate of another."""
    for name, documents in SOURCES.items():
        write_rows(corpus.folder / f"in/{name}.parquet", rows(**documents))
    sources = [{"name": name, "files": f"in/{name}.parquet"} for name in SOURCES]
    corpus.recipe |= {"sources": sources, "dedup": {"exact": "text"}}
    return corpus


def texts_of(recipe):
    return {row["name"]: row["text"] for source in SOURCES for row in table_of(recipe, source)}


def cut_by_windows(texts, length):
    """Return texts without what a dictionary of all windows marks and no document but the first owns."""
    documents = {number: [*text] for number, text in enumerate(texts)}
    cut = {number: set() for number in documents}
    owned = {number: set() for number in documents}
    for (document, start), (_, is_owned) in repeated_windows(documents, length).items():
        (owned if is_owned else cut)[document] |= {*range(start, start + length)}
    return [
        "".join(letter for place, letter in enumerate(text) if place not in cut[number] - owned[number])
        for number, text in enumerate(texts)
    ]


def test_published_texts_and_accounts(shared_corpus):
    recipe = shared_corpus.load(passages=PARTS)
    ledger = build_here(recipe)
    published = texts_of(recipe)
    before = {name: text for documents in SOURCES.values() for name, text in documents.items()}
    expected = dict(zip(before, cut_by_windows([*before.values()], LENGTH), strict=True))
    assert published == {name: text for name, text in expected.items() if text}
    for source in SOURCES:
        cut = sum(
            len(before[n].encode()) - len(published.get(n, before[n]).encode()) for n in SOURCES[source]
        )
        (line,) = ledger.lines_of("cuts", source)
        assert line.cut.bytes == cut
        (entered,) = ledger.lines_of("ingest", source)
        assert entered.out == line.out + line.cut + line.removed
        assert line.out.bytes == sum(len(published[n].encode()) for n in SOURCES[source] if n in published)
    assert "of repeated passages are cut from the documents of `middle`" in (
        recipe.folder.read("published/README.md").decode()
    )
    counted = shared_corpus.load(storage=str(shared_corpus.folder / "again"), sources=[
        {"name": "all", "files": write_published(shared_corpus, published)}
    ])  # fmt: skip
    tokens = {row["name"]: row["n_tokens"] for row in all_rows(recipe)}
    build_here(counted)
    assert tokens == {row["name"]: row["n_tokens"] for row in table_of(counted, "all")}


def write_published(corpus, texts):
    write_rows(corpus.folder / "in/published.parquet", rows(**texts))
    return "in/published.parquet"


def all_rows(recipe):
    return [row for source in SOURCES for row in table_of(recipe, source)]


def test_evidence(shared_corpus):
    recipe = shared_corpus.load(passages=PARTS)
    build_here(recipe)
    names = {row["doc_id"]: row["name"] for row in all_rows(recipe)} | {
        row["doc_id"]: "w3" for row in table_of(recipe, "removed")
    }
    texts = {name: text for documents in SOURCES.values() for name, text in documents.items()}
    found = table_of(recipe, "passages")
    assert {names[row["doc_id"]] for row in found} == {"b1", "m1", "w1", "w2", "b2", "w3"}
    for row in found:
        text, owner = texts[names[row["doc_id"]]], texts[names[row["owner_id"]]]
        passage = text[row["start"] : row["end"]]
        assert owner[row["owner_start"] :].startswith(passage)
        assert len(passage) >= LENGTH
        assert row["documents"] in (2, 3, 4)
    places = {name: str(doc_id) for doc_id, name in names.items()}
    (passage,) = explain(recipe, places["m1"]).passages
    assert passage.text == SOURCES["middle"]["m1"][passage.start : passage.end][:200]
    assert str(passage.owner.doc_id) == places["b1"]
    printed = zyda_here("explain", str(shared_corpus.path), places["m1"]).stdout
    assert f"the kept copy is in source best, file {passage.owner.file}, row 0" in printed
    (gone,) = table_of(recipe, "removed")
    assert (gone["stage"], gone["reason"]) == ("cuts", "repeated_passages")
    corpus = Corpus(PublishedCorpus.of(recipe))
    assert corpus.passages(["doc_id"]).count_rows() == len(found)


def test_explain_marks_what_is_cut(shared_corpus):
    recipe = shared_corpus.load(passages=PARTS, documents=[{"clean": "unicode"}])
    build_here(recipe)
    (row,) = (row for row in table_of(recipe, "worst") if row["name"] == "w1")
    explanation = explain(recipe, str(row["doc_id"]))
    before = SOURCES["worst"]["w1"]
    assert explanation.cut_characters == len(before) - len(row["text"])
    kept, cut = explanation.cut_text
    assert (kept.is_same, cut.is_same) == (True, False)
    assert kept.text.startswith(before[:100])
    assert kept.text.endswith(row["text"][-100:])
    assert cut.text.startswith(before[len(row["text"]) :][:100])
    printed = zyda_here("explain", str(shared_corpus.path), str(row["doc_id"])).stdout
    assert f"[-{cut.text}-]" in printed
    assert f"{explanation.cut_characters} characters of repeated passages are cut, here in" in printed


def test_cut_tokens_are_printed(shared_corpus):
    recipe = shared_corpus.load(passages=[{"length": LENGTH, "keep": "none", "cut": "line"}])
    cut = build_here(recipe).cut("cuts").tokens
    printed = zyda_here("ledger", str(shared_corpus.path)).stdout
    assert f"passages cut {cut:,} tokens from documents that are kept" in printed
    card = recipe.folder.read("published/README.md").decode()
    assert (
        "Passages of at least 100 characters that several documents share were cut in all documents, with all "
        "lines that they touch. `passages/` lists them." in card
    )
    assert "- config_name: passages\n  data_files: passages/*/*.parquet\n" in card
    (doc_id, *_) = (row["doc_id"] for row in table_of(recipe, "passages"))
    assert "all copies are cut" in zyda_here("explain", str(shared_corpus.path), str(doc_id)).stdout


# With these, each step of the search has several tasks, and files are gathered.
LIMITS = {
    (anchors, "WINDOWS_AT_ONCE"): 64, (context_jobs, "HELD_BYTES"): 2000, (document_names, "PART_ROWS"): 20,
    (exchange, "MOST_FILES"): 2, (exchange, "MOST_PARTS"): 4, (search, "PART_BYTES"): 1500,
    (range_jobs, "RANGE_BYTES"): 1000, (range_jobs, "FILE_BYTES"): 1000,
}  # fmt: skip


def test_shards_of_any_size_and_order(shared_corpus, tmp_path, monkeypatch):
    build_here(shared_corpus.load(passages=PARTS))
    whole = texts_of(shared_corpus.load(passages=PARTS)), passages(shared_corpus.load(passages=PARTS))
    for (module, name), value in LIMITS.items():
        monkeypatch.setattr(module, name, value)
    small = shared_corpus.load(passages=PARTS, shard_mib=0.0002, storage=str(tmp_path / "small"))
    build_here(small)
    assert (texts_of(small), passages(small)) == whole


def passages(recipe):
    return sorted(map(repr, table_of(recipe, "passages")))


@pytest.mark.parametrize(
    "part",
    [{"length": 10, "unit": "words"}, {"length": 30, "unit": "tokens"}, {"lines": {"in_documents": 2}}],
)
def test_owners_have_places_in_characters(shared_corpus, part):
    texts = {"b1": f"🙂 naïve\r\nfirst\n{SHARED}\nend", "m1": f"{OWN['m1']}\n{SHARED}\nlast"}
    write_rows(shared_corpus.folder / "in/best.parquet", rows(b1=texts["b1"]))
    write_rows(shared_corpus.folder / "in/middle.parquet", rows(m1=texts["m1"]))
    recipe = shared_corpus.load(
        passages=[{**part, "keep": "all"}], sources=shared_corpus.recipe["sources"][:2]
    )
    build_here(recipe)
    names = {row["doc_id"]: row["name"] for name in ("best", "middle") for row in table_of(recipe, name)}
    found = {
        names[row["doc_id"]]: (
            texts[names[row["doc_id"]]][row["start"] : row["end"]].strip(),
            texts[names[row["owner_id"]]][row["owner_start"] :].strip(),
        )
        for row in table_of(recipe, "passages")
    }
    assert [*found] == ["b1", "m1"]
    for passage, in_owner in found.values():
        assert passage in SHARED
        assert len(passage) > len(SHARED) - 20
        assert in_owner.startswith(passage)


def made_jobs(recipe, monkeypatch):
    """Build a corpus, and return the jobs that were not finished: the names of their classes and sources."""
    made, counted = set(), Job.counted
    with monkeypatch.context() as patch:
        patch.setattr(Job, "counted", lambda job: made.add((type(job).__name__, job.source)) or counted(job))
        build_here(recipe)
    return made


def test_only_changed_shards_are_searched_again(shared_corpus, monkeypatch):
    recipe = shared_corpus.load(passages=PARTS)
    assert ("ContextsOfShard", "best") in made_jobs(recipe, monkeypatch)
    work = shared_corpus.folder / "out/small/work"
    assert not [*work.glob("passages/*ofrange*.parquet"), *work.glob("passages/*gathered*")]
    for path in (work / "manifests").glob("passages-*"):
        path.unlink()
    assert made_jobs(recipe, monkeypatch) == set()
    write_rows(shared_corpus.folder / "in/worst-2.parquet", rows(w4=prose("own w4", 50)))
    sources = [*shared_corpus.recipe["sources"][:2], {"name": "worst", "files": "in/worst*.parquet"}]
    made = made_jobs(shared_corpus.load(passages=PARTS, sources=sources), monkeypatch)
    searched = {"FingerprintsOfShard", "ContextsOfShard", "PassagesOfShard", "ShardsToPublish"}
    assert {job for job in made if job[0] in searched and job[1] != "worst"} == set()
    assert ("FingerprintsOfShard", "worst") in made
    write_rows(shared_corpus.folder / "in/worst-2.parquet", rows(w4=f"{SOURCES['middle']['m2']} more"))
    made = made_jobs(shared_corpus.load(passages=PARTS, sources=sources), monkeypatch)
    assert {job[1] for job in made if job[0] == "FingerprintsOfShard"} == {"worst"}
    assert {job[1] for job in made if job[0] == "PassagesOfShard"} == {"middle", "worst"}


def test_a_resumed_build_writes_equal_files(shared_corpus):
    recipe = shared_corpus.load(passages=[*PARTS, {"paragraphs": {"in_documents": 2}}])
    build_here(recipe)
    before = contents(recipe)
    folder = shared_corpus.folder / "out/small/work"
    for place in ("passages", "passages-cuts", "cuts", "manifests", "publish"):
        for path in sorted((folder / place).rglob("*"), reverse=True):
            if path.is_file() and path.name[0] in "0123m":
                path.unlink()
    build_here(recipe)
    assert contents(recipe) == before


def test_rights_of_sources(shared_corpus):
    sources = {source["name"]: source for source in shared_corpus.recipe["sources"]}
    protected = [sources["best"], sources["middle"], {**sources["worst"], "protect": True}]
    recipe = shared_corpus.load(passages=PARTS, sources=protected)
    build_here(recipe)
    assert texts_of(recipe)["w2"] == SOURCES["worst"]["w2"]
    assert SHARED not in texts_of(recipe)["b1"]
    exempt = [{**sources["best"], "exempt": True}, sources["middle"], sources["worst"]]
    recipe = shared_corpus.load(passages=PARTS, sources=exempt)
    build_here(recipe)
    assert texts_of(recipe)["b1"] == SOURCES["best"]["b1"]
    assert texts_of(recipe)["m1"] == SOURCES["middle"]["m1"]
    with pytest.raises(TooMuchLost, match="passages would remove"):
        build_here(shared_corpus.load(passages=PARTS, max_loss={"passages": 0.01}))


def longest_first(name):
    return -len(next(texts[name] for texts in SOURCES.values() if name in texts).encode())


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize(
    ("prefer", "order"),
    [
        ("longest", longest_first),
        ("name desc", lambda name: [-ord(letter) for letter in name]),
        (["stars desc", "name asc"], lambda name: name),  # all have equal stars
    ],
)
def test_preferred_documents_own_passages(shared_corpus, monkeypatch, prefer, order, is_large):
    write_rows(shared_corpus.folder / "in/best.parquet", rows(b1=SOURCES["best"]["b1"], b2=OWN["b2"]))
    owner = min(("b1", "m1", "w2"), key=order)
    for (module, name), value in LIMITS.items() if is_large else ():
        monkeypatch.setattr(module, name, value)
    recipe = shared_corpus.load(
        passages=[{**PARTS[0], "prefer": prefer}], shard_mib=0.0002 if is_large else 256
    )
    build_here(recipe)
    assert [name for name, text in texts_of(recipe).items() if SHARED in text] == [owner]
    (preferred,) = {row["owner_id"] for row in table_of(recipe, "passages") if row["documents"] > 2}
    assert {row["name"] for row in all_rows(recipe) if row["doc_id"] == preferred} == {owner}


def test_preference_of_duplicates_is_the_default(shared_corpus):
    sources = shared_corpus.recipe["sources"]
    longest = min(("b1", "m1", "w2"), key=longest_first)
    dedup = [{"exact": "text"}, {"exact": "normalised", "scope": "global", "prefer": "longest"}]
    recipe = shared_corpus.load(passages=PARTS, dedup=dedup)
    build_here(recipe)
    assert [name for name, text in texts_of(recipe).items() if SHARED in text] == [longest]
    card = recipe.folder.read("published/README.md").decode()
    assert "share were cut except in the first document by `longest`." in card
    recipe = shared_corpus.load(passages=[{**PARTS[0], "prefer": "source"}], dedup=dedup)
    build_here(recipe)
    assert longest != "b1"
    assert [name for name, text in texts_of(recipe).items() if SHARED in text] == ["b1"]
    protected = [*sources[:2], {**sources[2], "protect": True}]
    recipe = shared_corpus.load(passages=PARTS, dedup=dedup, sources=protected)
    build_here(recipe)
    assert [name for name, text in texts_of(recipe).items() if SHARED in text] == ["w2"]


def test_preference_by_a_missing_column_is_refused(shared_corpus):
    recipe = shared_corpus.load(passages=[{**PARTS[0], "prefer": "score desc"}])
    with pytest.raises(
        BadRecipe, match=r"passages\[0\]\.prefer: source best: score desc: column score is missing"
    ):
        build_here(recipe)


def test_documents_are_dropped_unless_they_own(shared_corpus):
    recipe = shared_corpus.load(passages=[{"length": LENGTH, "drop_document": 0.3}])
    build_here(recipe)
    assert [*texts_of(recipe)] == ["b1", "b2", "m2"]
    reported = shared_corpus.load(passages=[{"length": LENGTH, "keep": "all"}])
    build_here(reported)
    assert len(texts_of(reported)) == 7
    assert len(table_of(reported, "passages")) == 6


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ([{"length": 19}], "give at least 20"),
        ([{"lines": {"in_documents": 1}}], "in_documents: expected at least 2"),
        ([{"length": 50, "drop_document": 1.5}], "drop_document: expected at most 1"),
        ([{"length": 50}, {"length": 60}], "two parts with `length`; give one"),
        ([{"cut": "line"}], "length"),
        ([{"length": 50, "prefer": ["longest", "longest"]}], "prefer: an entry is given twice"),
        ([{"length": 50, "prefer": "newest"}], "`source`, `longest`, or a column"),
    ],
)
def test_errors_of_the_recipe(shared_corpus, part, fault):
    with pytest.raises(BadRecipe, match=fault) as error:
        load_recipe(shared_corpus.write(passages=part))
    assert "\n" not in str(error.value)
