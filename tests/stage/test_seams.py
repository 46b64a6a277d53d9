"""What the next one costs: the rule, the stage and the format of CONTRIBUTING.md, each one file and one line."""

import importlib.util
import json
import re
import sys

import pyarrow.compute as pc
import pytest
from small_corpus import REPOSITORY, Corpus, build_here, kept_names, prose, rows, table_of, write_rows

from flows.command.show import decision
from tasks import pipeline
from tasks.errors import NotConserved
from tasks.publish.explain import explain
from tasks.sources import reading

GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text()
LOUD = prose("shared by all").upper()


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Give the modules of the guide, by their names, as if they stood in the repository."""

    def module(name):
        code = re.search(rf"`tasks/\S*{name}\.py`:\n\n```python\n(.*?)```", GUIDE, re.DOTALL)[1]
        path = tmp_path / f"{name}.py"
        path.write_text(code)
        spec = importlib.util.spec_from_file_location(name, path)
        found = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, found)
        spec.loader.exec_module(found)
        return found

    return module


@pytest.fixture
def with_stages(monkeypatch):
    """Change the one line of the pipeline."""

    def change(place, *stages):
        monkeypatch.setattr(pipeline, place, stages)

    return change


@pytest.fixture
def loud(corpus):
    """Three loud documents, one in the worst source, which are near-duplicates of each other and of no other."""
    write_rows(corpus.folder / "in/best-9.parquet", rows(loud_best=LOUD, loud_too=LOUD + " AGAIN"))
    write_rows(corpus.folder / "in/worst-9.jsonl.zst", rows(loud_worst=LOUD))
    return corpus


@pytest.mark.parametrize("place", ["BEFORE_DEDUP", "AFTER_DEDUP"])
def test_rule_of_the_guide_has_its_line_its_reason_and_its_explanation(loud, place, example, with_stages):
    with_stages(place, *getattr(pipeline, place), example("shouting").shouting)
    recipe = loud.load()
    ledger = build_here(recipe)
    assert not any("loud" in name for name in kept_names(recipe))
    ours = [row for row in table_of(recipe, "removed") if row["stage"] == "shouting"]
    assert ledger.removed("shouting").documents == len(ours)
    assert all(row["reason"] == "shouting" and row["share_of_capitals"] > 0.5 for row in ours)
    assert ledger.stages.index("shouting") == (
        1 if place == "BEFORE_DEDUP" else ledger.stages.index("filter") + 1
    )
    said = decision(explain(recipe, str(ours[0]["doc_id"])))
    assert said == (
        "It was removed by stage shouting, reason shouting: more than half of it is capital letters."
    )
    clustered = {row["doc_id"] for row in table_of(recipe, "clusters")}
    if place == "BEFORE_DEDUP":
        assert len(ours) == 3
        assert not any(row["doc_id"] in clustered for row in ours)
    else:  # the worst source's went as a duplicate
        assert len(ours) == 2
        assert all(row["doc_id"] in clustered for row in ours)


def test_what_was_let_go_before_deduplication_is_as_if_it_had_never_been_there(loud, example, with_stages):
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


def test_rule_that_is_taken_back_leaves_the_corpus_as_it_was(loud, example, with_stages):
    recipe = loud.load()
    build_here(recipe)
    before = recipe.folder.folder("published").stamps("").keys()
    with_stages("BEFORE_DEDUP", example("shouting").shouting)
    build_here(recipe)
    assert recipe.folder.folder("published").stamps("").keys() != before
    with_stages("BEFORE_DEDUP")
    build_here(recipe)
    assert recipe.folder.folder("published").stamps("").keys() == before


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda rows: rows[::-1], "each once and in their order"),
        (lambda rows: [*rows, rows[-1]], "each once and in their order"),
        (
            lambda rows: [*rows[:-1], {**rows[-1], "doc_id": rows[-1]["doc_id"] + 77}],
            "about documents that are left",
        ),
        (lambda rows: [{**row, "reason": None} for row in rows], "a document goes without a reason"),
    ],
)
def test_judge_that_does_not_speak_of_what_it_was_shown_ends_the_build(
    loud, example, with_stages, spoil, said
):
    module = example("shouting")
    loud_ones = module.loud

    def spoilt(documents):
        verdicts = loud_ones(documents)
        rows = verdicts.to_pylist()
        return verdicts if len(rows) < 2 else verdicts.from_pylist(spoil(rows), verdicts.schema)

    module.loud = spoilt
    with_stages("BEFORE_DEDUP", module.shouting)
    with pytest.raises(NotConserved, match=rf"shouting best, .*{said}"):
        build_here(loud.load())


def test_stage_of_the_guide_puts_its_column_beside_every_document(corpus, example, with_stages):
    with_stages("AFTER_DEDUP", *pipeline.AFTER_DEDUP, example("words").words)
    recipe = corpus.load()
    ledger = build_here(recipe)
    documents = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    assert all(row["n_words"] == len(row["text"].split()) for row in documents)
    assert ledger.of("words") == ledger.of("publish")


def test_format_of_the_guide_is_read_like_any_other(corpus, example, monkeypatch):
    monkeypatch.setattr(reading, "FORMATS", (*reading.FORMATS, example("comma_separated")))
    (corpus.folder / "in/more.csv").write_text(
        'name,text\nfirst,"A text, with a comma."\nshort\nlast,Another.\n'
    )
    corpus.recipe["sources"].append({"name": "more", "files": "in/*.csv", "on_bad_rows": "set_aside"})
    recipe = corpus.load()
    ledger = build_here(recipe)
    documents = [(row["name"], row["text"]) for row in table_of(recipe, "more")]
    assert documents == [("first", "A text, with a comma."), ("last", "Another.")]
    (bad,) = table_of(recipe, "set_aside")
    assert (bad["source"], bad["row"], bad["reason"]) == ("more", 1, "1 fields, expected 2")
    assert ledger.of("ingest", "more").documents == 2


class Lengths:
    """A companion of ingest: the longest text of each shard."""

    @classmethod
    def asked_by(cls, recipe):
        return cls

    def __init__(self):
        self.longest = 0

    def add(self, documents):
        self.longest = max(self.longest, pc.max(documents.column("n_bytes")).as_py())

    def write(self, folder, source, shard):
        folder.write(f"work/lengths/{source}-{shard.name}.json", json.dumps(self.longest).encode())


def test_companion_of_ingest_is_one_class_and_one_line(tmp_path, monkeypatch):
    from tasks.intake import ingest

    monkeypatch.setattr(ingest, "COMPANIONS", (*ingest.COMPANIONS, Lengths))
    recipe = Corpus(tmp_path).load()
    build_here(recipe)
    lengths = [json.loads(recipe.folder.read(path)) for path in recipe.folder.files("work/lengths")]
    texts = [row["text"] for source in recipe.sources for row in table_of(recipe, source.name)]
    assert max(lengths) == max(len(text.encode()) for text in texts)
