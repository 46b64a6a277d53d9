"""The rule, the stages and the format of CONTRIBUTING.md: each is a file and a line in a list."""

import gzip
import importlib.util
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from small_corpus import (
    REPOSITORY,
    Corpus,
    build_here,
    contents,
    kept_names,
    prose,
    rows,
    table_of,
    write_rows,
)

from zyda_flows.flows.command.explain import decision
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.errors import BadRecipe, NotConserved
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.verify_and_clean import orphans_of
from zyda_flows.tasks.quality.document_filter import run_filter
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.sources import reading
from zyda_flows.tasks.stage.results import HERE
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.storage.artifacts import Manifest

GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text()
LOUD = prose("shared by all").upper()


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Return a function that imports a module of the guide by its name."""

    def module(name):
        code = re.search(rf"`tasks/\S*{name}\.py`:\n\n```python\n(.*?)```", GUIDE, re.DOTALL)[1]
        path = tmp_path / f"{name}.py"
        path.write_text(code)
        spec = importlib.util.spec_from_file_location(name, path)
        imported = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, imported)
        spec.loader.exec_module(imported)
        return imported

    return module


WHOLE = pipeline.PIPELINE
ROUNDS, BANDS = (entry for entry in WHOLE if isinstance(entry, pipeline.EachRound))


@pytest.fixture
def with_stages(monkeypatch):
    """Return a function that adds stages to the pipeline."""

    def change(place, *stages):
        before = ROUNDS if place == "BEFORE_DEDUP" else BANDS
        number = WHOLE.index(before)
        monkeypatch.setattr(pipeline, "PIPELINE", (*WHOLE[:number], *stages, *WHOLE[number:]))

    return change


@pytest.fixture
def loud(corpus):
    """Return a corpus with three loud documents, which are near-duplicates only of each other.

    A single loud document is in the worst source.
    """
    write_rows(corpus.folder / "in/best-9.parquet", rows(loud_best=LOUD, loud_too=LOUD + " AGAIN"))
    write_rows(corpus.folder / "in/worst-9.jsonl.zst", rows(loud_worst=LOUD))
    return corpus


@pytest.mark.parametrize("place", ["BEFORE_DEDUP", "AFTER_DEDUP"])
def test_rule_of_the_guide_is_in_the_ledger_the_card_and_the_explanation(loud, place, example, with_stages):
    with_stages(place, example("shouting").shouting)
    recipe = loud.load()
    ledger = build_here(recipe)
    assert not any("loud" in name for name in kept_names(recipe))
    removed = [row for row in table_of(recipe, "removed") if row["stage"] == "shouting"]
    assert ledger.removed("shouting").documents == len(removed)
    assert all(row["reason"] == "shouting" and row["share_of_capitals"] > 0.5 for row in removed)
    after = "ingest" if place == "BEFORE_DEDUP" else "filter"
    assert ledger.stages.index("shouting") > ledger.stages.index(after)
    sentence = decision(explain(recipe, str(removed[0]["doc_id"])))
    assert sentence.startswith(
        "It was removed by stage shouting, reason shouting: more than half of it is capital letters. "
        "(share_of_capitals 0."
    )
    card = recipe.folder.read("published/README.md").decode()
    assert (
        f"- shouting (`shouting`) removed {len(removed)} documents: `shouting`, more than half of it" in card
    )
    clustered = {row["doc_id"] for row in table_of(recipe, "clusters")}
    if place == "BEFORE_DEDUP":
        assert len(removed) == 3
        assert not any(row["doc_id"] in clustered for row in removed)
    else:  # the document of the worst source was removed as a duplicate
        assert len(removed) == 2
        assert all(row["doc_id"] in clustered for row in removed)


def test_documents_removed_before_deduplication_do_not_affect_it(loud, example, with_stages):
    with_stages("BEFORE_DEDUP", example("shouting").shouting)
    recipe = loud.load()
    build_here(recipe)
    with_stages("BEFORE_DEDUP")
    for name in ("best-9.parquet", "worst-9.jsonl.zst"):
        (loud.folder / "in" / name).unlink()
    never = loud.load(name="never")
    build_here(never)
    assert kept_names(recipe) == kept_names(never)
    assert len(table_of(recipe, "clusters")) == len(table_of(never, "clusters")) > 0


def test_deleted_rule_restores_the_corpus(loud, example, with_stages):
    recipe = loud.load()
    build_here(recipe)
    before = contents(recipe).keys()
    with_stages("BEFORE_DEDUP", example("shouting").shouting)
    build_here(recipe)
    assert contents(recipe).keys() != before
    with_stages("BEFORE_DEDUP")
    build_here(recipe)
    assert contents(recipe).keys() == before


def replaced(name, values):
    """Return a function that replaces the values of a column of a table."""
    return lambda table: table.set_column(table.column_names.index(name), name, values(table.column(name)))


WRONG = {
    "in another order": (lambda table: table.take(list(range(len(table)))[::-1]), "each at most once, in the order of doc_id"),
    "twice": (lambda table: table.take([*range(len(table)), len(table) - 1]), "each at most once, in the order of doc_id"),
    "of documents that are not there": (
        replaced("doc_id", lambda ids: pc.add(ids, pa.scalar(77, pa.uint64()))), "must be of remaining documents",
    ),
    "without a reason": (
        replaced("reason", lambda reasons: pa.nulls(len(reasons), pa.string())), "is removed without a reason",
    ),
    "for another reason": (
        replaced("reason", lambda reasons: pa.array(["odd"] * len(reasons))), "the reason 'odd' is not declared",
    ),
    "no evidence": (lambda table: table.drop_columns(["share_of_capitals"]), "has no column share_of_capitals"),
    "another type": (
        replaced("share_of_capitals", lambda shares: pa.array(["much"] * len(shares))), "much",
    ),
    "nothing": (lambda table: None, "a table is expected, not NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_verdicts_end_the_build(loud, example, with_stages, wrong):
    change, message = WRONG[wrong]
    module = example("shouting")
    judges = module.loud
    judge = replace(module.SHOUTING, verdicts=lambda documents: spoilt(judges(documents), change))
    module.SHOUTING = judge
    with_stages("BEFORE_DEDUP", module.shouting)
    with pytest.raises(NotConserved, match=rf"stage shouting, source best, shard .*{message}"):
        build_here(loud.load())


def spoilt(verdicts, change):
    return change(verdicts) if len(verdicts) > 1 else verdicts


def test_failing_rule_has_a_note_with_its_shard(loud, example, with_stages):
    module = example("shouting")
    module.SHOUTING = replace(module.SHOUTING, verdicts=lambda documents: documents.column("no such"))
    with_stages("AFTER_DEDUP", module.shouting)
    with pytest.raises(KeyError) as raised:
        build_here(loud.load())
    assert raised.value.__notes__ == ["in stage shouting, source best, shard 000000-000-000"]


def test_clean_keeps_band_keys_that_a_rule_reduces(loud, example, with_stages):
    with_stages("BEFORE_DEDUP", example("shouting").shouting)
    recipe = loud.load()
    build_here(recipe)
    assert not [file.path for file in orphans_of(recipe) if file.path.startswith("work/minhash")]


def test_changed_rule_runs_again_with_a_higher_version(loud, example, with_stages):
    module = example("shouting")
    with_stages("BEFORE_DEDUP", module.shouting)
    recipe = loud.load()
    before = build_here(recipe).removed("shouting").documents
    none = replace(module.SHOUTING, verdicts=lambda documents: module.loud(documents).slice(0, 0))
    module.SHOUTING = none
    assert (
        build_here(recipe).removed("shouting").documents == before > 0
    )  # the results with the same key are reused
    newer = replace(none, version=2)
    with_stages(
        "BEFORE_DEDUP",
        replace(module.shouting, key=newer.key, run=lambda plan, trail: run_filter(plan, trail, newer)),
    )
    assert build_here(recipe).removed("shouting").documents == 0


def test_files_of_removed_documents_have_the_same_columns(loud, example, with_stages):
    with_stages("BEFORE_DEDUP", example("shouting").shouting)
    recipe = loud.load(shard_mib=0.001, published_mib=0.001)
    build_here(recipe)
    paths = recipe.folder.folder("published").files("removed")
    folder = Path(recipe.folder.url) / "published"
    schemas = {pq.read_schema(folder / path) for path in paths}
    assert len(paths) > 3
    assert [schema.names[-1] for schema in schemas] == ["share_of_capitals"]
    reasons = pq.read_table(folder / "removed").column("reason").to_pylist()
    assert set(reasons) == {"shouting", "duplicate", "keep"}


def test_stage_of_the_guide_removes_documents_and_adds_a_column(corpus, example, with_stages):
    write_rows(
        corpus.folder / "in/best-9.parquet", rows(brief="Two words", briefer="", enough="Now three words")
    )
    with_stages("AFTER_DEDUP", example("brevity").brevity)
    recipe = corpus.load()
    ledger = build_here(recipe)
    documents = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    assert all(row["n_words"] == len(row["text"].split()) >= 3 for row in documents)
    assert {"enough"} == {row["name"] for row in documents} & {"brief", "briefer", "enough"}
    removed = [row for row in table_of(recipe, "removed") if row["stage"] == "brevity"]
    assert ledger.removed("brevity").documents == len(removed) > 1
    assert all(row["n_words"] < 3 for row in removed)


def test_newly_published_column_is_published(corpus, example, with_stages):
    """The published columns of a stage are part of the keys of later stages."""
    module = example("brevity")
    added_columns = module.WordsOfShard.added_columns
    module.WordsOfShard.added_columns = ()
    with_stages("AFTER_DEDUP", module.brevity)
    recipe = corpus.load()
    build_here(recipe)
    assert "n_words" not in table_of(recipe, "best")[0]
    module.WordsOfShard.added_columns, module.VERSION, module.WordsOfShard.version = added_columns, 2, 2
    build_here(recipe)
    assert "n_words" in table_of(recipe, "best")[0]


def test_column_of_a_stage_that_exists_in_a_source_raises(corpus, example, with_stages):
    for name in ("best-0.parquet", "best-1.parquet"):
        table = pq.read_table(corpus.folder / "in" / name)
        pq.write_table(
            table.append_column("n_words", pa.array(range(len(table)))), corpus.folder / "in" / name
        )
    with_stages("AFTER_DEDUP", example("brevity").brevity)
    with pytest.raises(NotConserved, match=r"stage brevity adds a column n_words to .* source best"):
        build_here(corpus.load())


@pytest.mark.parametrize("name", ["stage", "n_tokens"])
def test_evidence_with_a_reserved_name_raises(name):
    with pytest.raises(ValueError, match=f"evidence cannot be called {name}"):
        stage("odd", lambda *_: "", evidence=pa.schema([(name, pa.int32())]))(run_filter)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (("shouting", "shouting"), "two stages are called shouting"),
        (("filter",), "two stages are called filter"),
    ],
)
def test_two_stages_with_the_same_name_raise(corpus, example, with_stages, stages, message):
    module = example("shouting")
    with_stages("BEFORE_DEDUP", *(stage(name, module.SHOUTING.key)(run_filter) for name in stages))
    with pytest.raises(TypeError, match=message):
        build_here(corpus.load())


def test_function_without_stage_decorator_raises(corpus, with_stages):
    with_stages("BEFORE_DEDUP", run_filter)
    with pytest.raises(TypeError, match="is not a stage: it lacks @stage"):
        build_here(corpus.load())


@pytest.mark.parametrize(
    ("returned", "message"), [(None, "not NoneType"), ("other", "the manifest of stage other")]
)
def test_stage_that_returns_no_own_manifest_raises(corpus, with_stages, returned, message):
    odd = stage("odd", lambda *_: "0" * 20)(
        lambda _, trail: returned and Manifest(stage=returned, source=trail.source)
    )
    with_stages("BEFORE_DEDUP", odd)
    with pytest.raises(TypeError, match=message):
        build_here(corpus.load())


def test_format_of_the_guide_is_read(corpus, example, monkeypatch):
    monkeypatch.setattr(reading, "FORMATS", (*reading.FORMATS, example("plain_text")))
    lines = [b"The first line.", b"", b"\xff\xfe", "Die letzte, länger.".encode()]
    (corpus.folder / "in/more.lines").write_bytes(b"\n".join(lines))
    (corpus.folder / "in/packed.lines.gz").write_bytes(gzip.compress(b"Packed.\nAnd cut " * 5000)[:-9])
    corpus.recipe["sources"].append({"name": "more", "files": "in/*.lines*", "on_bad_rows": "set_aside"})
    recipe = corpus.load()
    ledger = build_here(recipe)
    texts = [row["text"] for row in table_of(recipe, "more")]
    assert texts[:2] == ["The first line.", "Die letzte, länger."]
    assert "Packed." in texts
    set_aside = table_of(recipe, "set_aside")
    assert (set_aside[0]["source"], set_aside[0]["row"]) == ("more", 2)
    assert "invalid UTF-8" in set_aside[0]["reason"]
    assert "the file is damaged from here on" in set_aside[1]["reason"]
    assert ledger.of("ingest", "more").documents > 2


def test_file_is_read_again_with_a_higher_version_of_its_format(corpus, example, monkeypatch):
    plain_text = example("plain_text")
    monkeypatch.setattr(reading, "FORMATS", (*reading.FORMATS, plain_text))
    (corpus.folder / "in/more.lines").write_bytes(b"One line.\nAnd another.")
    corpus.recipe["sources"].append({"name": "more", "files": "in/more.lines"})
    recipe = corpus.load()
    build_here(recipe)
    read = plain_text.read
    plain_text.read = lambda *inputs: (upper(chunk) for chunk in read(*inputs))
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "more")] == ["One line.", "And another."]
    plain_text.VERSION = 2
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "more")] == ["ONE LINE.", "AND ANOTHER."]


def upper(chunk):
    return replace(chunk, table=pa.table({"text": pc.utf8_upper(chunk.table.column("text"))}))


def test_flow_runs_the_stages_in_the_order_of_the_pipeline(corpus, example, with_stages):
    with_stages("BEFORE_DEDUP", example("shouting").shouting)
    submitted = list[str]()

    def submit(stage, *inputs, **options):
        submitted.append(stage.name)
        return HERE.submit(stage, *inputs, **options)

    run_pipeline(corpus.load(), HERE._replace(submit=submit))
    steps = pipeline.visible_steps(corpus.load())
    names = [step.name for step in steps]
    assert tuple(dict.fromkeys(submitted)) == (*names, "publish_corpus", "record_last_build")
    assert "shouting" in names
    assert "classify" not in names  # no source has a model
    corpus_steps = {step.name for step in steps if not step.sources}
    corpus_stages = {stage.name for stage in pipeline.stages() if stage.scope == "corpus"}
    assert corpus_steps == {"prepare", *corpus_stages} & set(names)
    assert {"edges", "clusters", "decisions"} < corpus_steps


def test_corpus_stage_of_the_guide_publishes_its_table(corpus, example, with_stages):
    with_stages("AFTER_DEDUP", example("lengths").lengths)
    recipe = corpus.load()
    build_here(recipe)
    texts = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    expected = Counter(len(str(row["n_tokens"])) for row in texts)
    assert {row["digits"]: row["count_all"] for row in table_of(recipe, "lengths")} == expected
    assert "lengths" in [step.name for step in pipeline.visible_steps(recipe)]


def test_source_with_the_name_of_a_published_folder_raises(corpus, example, with_stages):
    with_stages("AFTER_DEDUP", example("lengths").lengths)
    corpus.recipe["sources"][0]["name"] = "2024"  # a valid name
    corpus.recipe["sources"][1]["name"] = "lengths"
    with pytest.raises(
        BadRecipe, match="source lengths: a stage publishes its tables in a folder of that name"
    ):
        build_here(corpus.load())


def test_stage_with_an_unknown_input_raises(corpus, example, with_stages):
    with_stages("BEFORE_DEDUP", replace(example("lengths").lengths, inputs=("trails", "clusters")))
    with pytest.raises(TypeError, match="stage lengths takes clusters, which no stage before it gives"):
        build_here(corpus.load())


class Lengths:
    """A companion of ingest that stores the length of the longest text of each shard."""

    @classmethod
    def for_source(cls, recipe, source):
        return cls

    def __init__(self):
        self.longest = 0

    def add(self, documents):
        self.longest = max(self.longest, pc.max(documents.column("n_bytes")).as_py())

    def write(self, folder, source, shard):
        folder.write(f"work/lengths/{source}-{shard.name}.json", json.dumps(self.longest).encode())


def test_companion_of_ingest_is_called(tmp_path, monkeypatch):
    from zyda_flows.tasks.ingest import ingest

    monkeypatch.setattr(ingest, "COMPANIONS", (*ingest.COMPANIONS, Lengths))
    recipe = Corpus(tmp_path).load()
    build_here(recipe)
    lengths = [json.loads(recipe.folder.read(path)) for path in recipe.folder.files("work/lengths")]
    texts = [row["text"] for source in recipe.sources for row in table_of(recipe, source.name)]
    assert max(lengths) == max(len(text.encode()) for text in texts)
