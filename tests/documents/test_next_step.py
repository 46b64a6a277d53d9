"""What the next step and the next extractor cost: those of CONTRIBUTING.md, and the registries that know all."""

import importlib
import importlib.util
import pkgutil
import re
import sys

import pyarrow as pa
import pytest
from small_corpus import REPOSITORY, build_here, kept_names, rows, table_of, write_rows

from zyda_flows.flows.command.explain import decision
from zyda_flows.flows.command.try_ import limits
from zyda_flows.tasks.documents import steps as executed
from zyda_flows.tasks.documents.extraction import extracted
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.steps import registry as executed_registry
from zyda_flows.tasks.documents.steps.step import DocumentStep
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.extraction.extractors import EXTRACTORS, Extractor, known_as
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe import steps as asked
from zyda_flows.tasks.recipe.steps import registry as asked_registry
from zyda_flows.tasks.recipe.steps.step import Step

GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text()


@pytest.fixture
def guide(tmp_path, monkeypatch):
    """Give what imports a file of the guide as if it stood in the repository."""

    def module(path):
        (tmp_path / "module.py").write_text(
            re.search(rf"`{path}`:\n\n```python\n(.*?)```", GUIDE, re.DOTALL)[1]
        )
        name = f"zyda_flows.{path.removesuffix('.py').replace('/', '.')}"
        spec = importlib.util.spec_from_file_location(name, tmp_path / "module.py")
        found = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, found)
        spec.loader.exec_module(found)
        return found

    return module


@pytest.fixture
def most_words(guide, monkeypatch):
    """Have the step of the guide in both registries."""
    step = guide("tasks/recipe/steps/most_words.py").MostWordsStep
    monkeypatch.setitem(asked_registry.BY_KIND, "most_words", step)
    run = guide("tasks/documents/steps/most_words.py").MostWords
    monkeypatch.setitem(executed_registry.BY_KIND, "most_words", run)


def test_step_of_the_guide_removes_documents_with_its_reason_and_is_tried(corpus, most_words):
    write_rows(corpus.folder / "in/best-9.parquet", rows(brief="Two words", longer="Now there are four"))
    recipe = corpus.load(documents=[{"clean": "zyda1"}, {"most_words": 3}])
    trial = try_steps(recipe, 1000)
    build_here(recipe)
    kept = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    gone = [row for row in table_of(recipe, "removed") if row["stage"] == "rules"]
    assert all(len(row["text"].split()) <= 3 for row in kept)
    assert ("brief" in kept_names(recipe), "longer" in kept_names(recipe)) == (True, False)
    assert {(row["reason"], row["threshold"]) for row in gone} == {("most_words", 3.0)}
    assert 4.0 in {row["value"] for row in gone}
    assert "it has more words than the recipe allows" in decision(explain(recipe, str(gone[0]["doc_id"])))
    assert (limits(trial.rules["most_words"]), trial.rules["most_words"].total) == (
        "at most 3 is kept", len(gone),
    )  # fmt: skip


def test_settings_of_the_step_of_the_guide_are_judged(corpus, most_words):
    with pytest.raises(BadRecipe, match=r"recipe\.yaml:\d+: documents\[0\]\.most_words: expected at least 1"):
        corpus.load(documents=[{"most_words": 0}])


def test_plan_is_the_same_when_it_is_read_again(corpus, most_words):
    steps = [{"clean": "zyda1"}, {"most_words": 3}, {"measure": ["c4", "pii"]}, {"filter": "fineweb"}]
    plan = plan_documents(corpus.load(documents=steps), "best")
    assert DocumentPlan.model_validate_json(plan.model_dump_json()) == plan


def classes(package, base):
    """Return the classes below a base that the modules of a package define."""
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    values = [value for module in modules for value in vars(module).values()]
    return {value for value in values if isinstance(value, type) and issubclass(value, base)}


def test_every_step_is_in_both_registries():
    """A class without a field, or without a step that it executes, is the base of others."""
    assert {step for step in classes(asked, Step) if step.kind} == {*asked_registry.STEPS}
    run = {step for step in classes(executed, DocumentStep) if hasattr(step, "settings")}
    assert run == {*executed_registry.STEPS}


def test_step_that_only_a_recipe_knows_is_told_at_import(monkeypatch):
    monkeypatch.setattr(asked_registry, "KINDS", (*asked_registry.KINDS, "unknown"))
    spec = importlib.util.find_spec("zyda_flows.tasks.documents.steps.registry")
    with pytest.raises(TypeError, match="steps in STEPS of only one of the two registries: unknown"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


SUBTITLES = (
    "1\r\n00:00:01,000 --> 00:00:02,500\r\nGood evening.\r\n\r\n2\n00:00:03,000 --> 00:00:04,000\n- At 10?\n"
)


def test_extractor_of_the_guide_is_used_like_any_other(corpus, guide, monkeypatch):
    guide("tasks/extraction/subtitles.py")
    (line,) = re.findall(r"`\"subtitles\": (Extractor\(.*?\))`", GUIDE)
    assert line == 'Extractor("subtitles:spoken_lines")'
    monkeypatch.setitem(EXTRACTORS, "subtitles", Extractor("subtitles:spoken_lines"))
    write_rows(corpus.folder / "in/best-9.parquet", rows(film=SUBTITLES, silent="1\n00:01 --> 00:02\n"))
    best = corpus.recipe["sources"][0] | {"files": "in/best-9.parquet"}
    recipe = corpus.load(sources=[best], documents=[{"extract": "subtitles"}])
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "best")] == ["Good evening.\n- At 10?"]
    assert [row["reason"] for row in table_of(recipe, "removed")] == ["extract-subtitles.emptied"]


@pytest.mark.parametrize("name", EXTRACTORS)
def test_every_extractor_is_where_its_table_has_it(name):
    assert callable(EXTRACTORS[name].load())


@pytest.mark.parametrize(
    "ask", [known_as, lambda name: extracted(pa.array(["<p>a"], pa.large_string()), name)]
)
def test_unknown_extractor_is_refused(ask):
    with pytest.raises(ValueError, match="extract: expected one of fast, structured"):
        ask("epub")
