"""Corpora with semantic rounds: texts without a vector, equal texts, resumed builds, removal requests, faults."""

import shutil

import pyarrow.parquet as pq
import pytest
from damages import DAMAGES
from forgetting import asking, forget, in_turn
from small_corpus import Corpus, build_here, contents, copy_of, rows, shards_of, table_of, write_rows
from token_judges import random_judge

from zyda_flows.tasks.erasure.requested_documents import find_documents
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.forecast.plan import plan_of
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.spent import calling_on_result
from zyda_flows.tasks.storage import tables

BOAT = "the river flows to the sea and the boat follows it"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(random_judge(tmp_path_factory.mktemp("model") / "model", labels=(), dims=16))


def corpus_of(folder, model, good, web, **semantic):
    corpus = Corpus(folder)
    for name, documents in (("good", good), ("web", web)):
        write_rows(folder / "in" / f"{name}.parquet", rows(**documents))
    corpus.recipe["sources"] = [{"name": name, "files": f"in/{name}.parquet"} for name in ("good", "web")]
    corpus.recipe["dedup"] = {"semantic": {"model": model, "remove": True, **semantic}, "scope": "global"}
    return corpus


def ids_in(folder):
    """Return the ids in all tables of a folder that have ids, by path."""
    found = {}
    for path in folder.rglob("*.parquet"):
        if "overlap" in path.parts:  # its numbers are counts
            continue
        table = pq.read_table(path)
        columns = [column for column in table.columns if str(column.type) == "uint64"]
        found[str(path.relative_to(folder))] = {value for column in columns for value in column.to_pylist()}
    return found


@pytest.mark.parametrize(
    ("good", "web", "removed"),
    [({"a": "", "b": " "}, {"c": "\n"}, 0), ({"a": "boat"}, {"b": "boat"}, 1), ({"a": BOAT}, {"b": "a b c"}, 0),
     ({f"a{i}": BOAT for i in range(80)}, {f"b{i}": BOAT for i in range(80)}, 159)],
)  # fmt: skip
def test_texts_without_vectors_and_equal_texts(tmp_path, model, good, web, removed):
    recipe = corpus_of(tmp_path, model, good, web).load()
    build_here(recipe)
    assert len(table_of(recipe, "removed")) == removed
    kept = table_of(recipe, "good") + table_of(recipe, "web")
    assert len(kept) == len(good) + len(web) - removed


SPELLINGS = (
    "after the storm they sailed home with the catch and sold it at the quay to the owner of the old inn"
)


def test_facts_decide(tmp_path, model):
    """A document is removed for another that has its facts.

    It is kept if a fact would be lost, if its language is unknown, and if it is an edited version without other facts.
    """
    long = f"{BOAT} and {SPELLINGS} in 1984, and that was all of it"
    texts = {
        "same": (long, f"{long}. The owner of the inn sang at dawn"),
        "fact": (long, long.replace("1984", "1985")),
        "language": (
            "rzeka płynie do morza, a łódź płynie za nią",
            "rzeka płynie do morza, a łódź płynie za nią też",
        ),
        "edits": (long.replace("storm", "concert"), long.replace("sold it", "sang it")),
    }
    for name, (good, web) in texts.items():
        recipe = corpus_of(
            tmp_path / name, model, {"a": web}, {"b": good}, cosine=0.8, propose_cosine=0.7
        ).load()
        build_here(recipe)
        pairs = table_of(recipe, "pairs")
        (own,) = [row for row in pairs if row["doc_id"] > row["other_id"]]
        assert bool(table_of(recipe, "removed")) == (name == "same")
        assert own["agrees"] == (name == "same")
        assert len(table_of(recipe, "contradictions")) == (name == "fact")
        assert ("language" in own["lacks"]) == (name == "language")
        assert ("words: " in own["lacks"]) == (name in ("fact", "edits"))


def test_resumed_build_has_the_same_bytes(tmp_path, model):
    """Files of the stages are lost, as after a crash."""
    good = {f"a{i}": f"{BOAT} number {['one', 'two', 'three', 'four', 'five'][i]}" for i in range(5)}
    web = {f"b{i}": f"{BOAT} at {['dawn', 'noon', 'dusk', 'night'][i]}" for i in range(4)}
    recipe = corpus_of(tmp_path, model, good, web, cosine=0.8, propose_cosine=0.7).load()
    build_here(recipe)
    before = contents(recipe)
    assert table_of(recipe, "pairs")
    work = tmp_path / "out" / "small" / "work"
    for name in ("propose", "confirm", "links", "contradictions", "decisions"):
        files = sorted(path for path in (work / name).rglob("*") if path.is_file())
        for path in files[::2]:
            path.unlink()
    for path in (work / "manifests").rglob("*.json"):
        path.unlink()
    build_here(recipe)
    assert contents(recipe) == before


def test_requested_document_leaves_all_tables(tmp_path, model):
    corpus = corpus_of(
        tmp_path, model, {"a": f"{BOAT} in 1984"}, {"b": f"{BOAT} in 1985"}, cosine=0.8, propose_cosine=0.7
    )
    recipe = corpus.load()
    build_here(recipe)
    ((row, _), (contradiction,)) = table_of(recipe, "pairs"), table_of(recipe, "contradictions")
    assert row["doc_id"] == contradiction["doc_id"] == 0
    _, recipe, _ = forget(corpus, asking(ids=["0"]), alike=False)
    named = {path for path, ids in ids_in(tmp_path / "out" / "small").items() if 0 in ids}
    places = {path.rpartition("/")[0].removeprefix("work/").partition("/")[0] for path in named}
    assert places <= {"published", "removed", "deny", "ingest"}
    assert not table_of(recipe, "pairs")


def test_request_finds_the_removed_copy_with_its_cosine(tmp_path, model):
    far = {f"c{i}": f"{'stone and bread ' * i} candle" for i in range(1, 4)}
    reordered = " ".join(reversed(BOAT.split()))  # another signature
    good, web = {"a": f"{BOAT} in 1984"}, {"b": f"{reordered} in 1985", **far}
    recipe = corpus_of(tmp_path, model, good, web, cosine=0.8, propose_cosine=0.7, facts="ignore").load()
    build_here(recipe)
    (removed,) = (row for row in table_of(recipe, "removed") if row["kept_doc_id"] == 0)
    documents = find_documents(recipe, asking(ids=["0"]), in_turn).documents
    assert {document.doc_id: document.likeness for document in documents} == {
        0: None,
        removed["doc_id"]: removed["cosine"],
    }


def test_relative_models_are_in_the_folder_of_the_recipe(tmp_path, model, monkeypatch):
    corpus = corpus_of(tmp_path, model, {"a": BOAT}, {"b": BOAT})
    for name in ("strong", "cheap"):
        shutil.copytree(model, tmp_path / name)
    corpus.recipe["dedup"]["semantic"] |= {"model": "./strong", "propose": "cheap"}
    monkeypatch.chdir("/")
    settings = load_recipe(corpus.write()).rounds[0].semantic
    assert (settings.model, settings.propose) == (str(tmp_path / "strong"), str(tmp_path / "cheap"))


@pytest.mark.parametrize(
    ("semantic", "fault"),
    [({"propose": "/no/model"}, "semantic.propose: /no/model cannot be loaded: there is no folder /no/model"),
     ({"cosine": 1.5}, "cosine: expected at most 1"), ({"facts": "some"}, "facts: expected 'same' or 'ignore'"),
     ({"propose_revision": "main"}, "propose_revision: it needs `propose`")],
)  # fmt: skip
def test_faults_of_models_and_settings_are_named_before_work(tmp_path, model, semantic, fault):
    corpus = corpus_of(tmp_path, model, {"a": BOAT}, {"b": BOAT}, **semantic)
    with pytest.raises(BadRecipe) as error:
        build_here(corpus.load())
    assert fault in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert not (tmp_path / "out" / "small" / "work" / "ingest").exists()


@pytest.mark.parametrize("field", ["bands", "verify"])
def test_settings_of_other_rounds_are_refused(tmp_path, model, field):
    corpus = corpus_of(tmp_path, model, {"a": BOAT}, {"b": BOAT})
    value = {"bands": 8, "verify": {"jaccard": 0.8}}[field]
    with pytest.raises(BadRecipe, match=field):
        corpus.load(dedup={"semantic": {"model": model}, field: value})


def test_planned_tasks_equal_the_executed_tasks(tmp_path, model):
    good = {f"a{i}": f"{BOAT} number {i}" for i in range(40)}
    web = {f"b{i}": f"{BOAT} and {i}" for i in range(30)}
    recipe = corpus_of(tmp_path, model, good, web).load()
    planned = {
        stage.stage: stage.spent.calls
        for stage in plan_of(recipe, 2, 8 << 30, lambda function, items, **_: [*map(function, items)]).stages
    }
    run = dict[str, int]()
    with calling_on_result(lambda name, _, __, spent: run.update({name: run.get(name, 0) + spent.calls})):
        build_here(recipe)
    names = {"propose", "signs", "proposed pairs", "confirm", "confirmed pairs", "contradictions", "links"}
    assert {name: planned[name] for name in names} == {name: run[name] for name in names}


@pytest.fixture(scope="module")
def built_boats(tmp_path_factory, model):
    """Return a built corpus of four documents."""
    good, web = {"a": f"{BOAT} in 1984", "b": BOAT}, {"c": f"{BOAT} in 1985", "d": f"{BOAT} too"}
    folder = tmp_path_factory.mktemp("boats")
    corpus = corpus_of(folder, model, good, web, cosine=0.8, propose_cosine=0.7).elsewhere(folder)
    build_here(corpus.load())
    return corpus


@pytest.mark.parametrize("stage", ["propose", "confirm", "contradictions", "links"])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_artifact_is_rebuilt(tmp_path, built_boats, stage, damage):
    recipe = copy_of(built_boats, tmp_path).load()
    undisturbed = contents(recipe)
    artifact = max(shards_of(recipe, stage), key=lambda artifact: artifact.rows)
    stages = ("propose", "confirm", "contradictions", "links")
    for after in (*stages[stages.index(stage) + 1 :], "clusters", "decisions", "removals", "publish"):
        for path in recipe.folder.files("work/manifests"):
            if path.startswith(f"work/manifests/{after}-"):
                recipe.folder.delete(path)
        recipe.folder.delete(f"work/{after}")
    recipe.folder.delete("published")
    DAMAGES[damage](tmp_path / "out" / "small" / artifact.path)
    tables.FOOTERS.clear()  # like a worker that reads the file for the first time
    build_here(recipe)
    assert contents(recipe) == undisturbed
