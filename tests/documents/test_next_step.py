"""Test the example step and extractor of CONTRIBUTING.md, and that the registries contain every step."""

import importlib
import importlib.util
import pkgutil
import re
import sys

import pyarrow as pa
import pytest
from small_corpus import REPOSITORY, build_here, kept_names, rows, table_of, write_rows

from zyda_flows.flows.command.explain import decision
from zyda_flows.flows.command.try_recipe import limits
from zyda_flows.tasks.documents import steps as execution_steps
from zyda_flows.tasks.documents.extraction import extract_texts
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.steps import registry as execution_registry
from zyda_flows.tasks.documents.steps.step import DocumentStep
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.extraction.extractors import EXTRACTORS, Extractor, known_as
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe import steps as recipe_steps
from zyda_flows.tasks.recipe.steps import registry as recipe_registry
from zyda_flows.tasks.recipe.steps.step import Step

GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text()


@pytest.fixture
def guide(tmp_path, monkeypatch):
    """Return a function that imports a file of the guide under its name in the repository."""

    def module(path):
        (tmp_path / "module.py").write_text(
            re.search(rf"`{path}`:\n\n```python\n(.*?)```", GUIDE, re.DOTALL)[1]
        )
        name = f"zyda_flows.{path.removesuffix('.py').replace('/', '.')}"
        spec = importlib.util.spec_from_file_location(name, tmp_path / "module.py")
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, loaded)
        spec.loader.exec_module(loaded)
        return loaded

    return module


@pytest.fixture
def most_words(guide, monkeypatch):
    """Add the step of the guide to both registries."""
    step = guide("tasks/recipe/steps/most_words.py").MostWordsStep
    monkeypatch.setitem(recipe_registry.BY_KIND, "most_words", step)
    run = guide("tasks/documents/steps/most_words.py").MostWords
    monkeypatch.setitem(execution_registry.BY_KIND, "most_words", run)


def test_step_of_the_guide_removes_documents_with_its_reason_in_build_and_trial(corpus, most_words):
    write_rows(corpus.folder / "in/best-9.parquet", rows(brief="Two words", longer="Now there are four"))
    recipe = corpus.load(documents=[{"clean": "zyda1"}, {"most_words": 3}])
    trial = try_steps(recipe, 1000)
    build_here(recipe)
    kept = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    removed = [row for row in table_of(recipe, "removed") if row["stage"] == "rules"]
    assert all(len(row["text"].split()) <= 3 for row in kept)
    assert ("brief" in kept_names(recipe), "longer" in kept_names(recipe)) == (True, False)
    assert {(row["reason"], row["threshold"]) for row in removed} == {("most_words", 3.0)}
    assert 4.0 in {row["value"] for row in removed}
    assert "it has more words than the recipe allows" in decision(explain(recipe, str(removed[0]["doc_id"])))
    assert (limits(trial.rules["most_words"]), trial.rules["most_words"].total) == (
        "at most 3 is kept", len(removed),
    )  # fmt: skip


def test_invalid_setting_of_the_step_of_the_guide_raises(corpus, most_words):
    with pytest.raises(BadRecipe, match=r"recipe\.yaml:\d+: documents\[0\]\.most_words: expected at least 1"):
        corpus.load(documents=[{"most_words": 0}])


def test_plan_read_from_json_equals_the_written_plan(corpus, most_words):
    steps = [{"clean": "zyda1"}, {"most_words": 3}, {"measure": ["c4", "pii"]}, {"filter": "fineweb"}]
    plan = plan_documents(corpus.load(documents=steps), "best")
    assert DocumentPlan.model_validate_json(plan.model_dump_json()) == plan


def classes(package, base):
    """Return the subclasses of `base` in the modules of a package."""
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    values = [value for module in modules for value in vars(module).values()]
    return {value for value in values if isinstance(value, type) and issubclass(value, base)}


def test_every_step_is_in_both_registries():
    """Base classes, which have no `kind` (recipe) or no `settings` (execution), are not compared."""
    assert {step for step in classes(recipe_steps, Step) if step.kind} == {*recipe_registry.STEPS}
    run = {step for step in classes(execution_steps, DocumentStep) if hasattr(step, "settings")}
    assert run == {*execution_registry.STEPS}


def test_step_in_only_the_recipe_registry_raises_at_import(monkeypatch):
    monkeypatch.setattr(recipe_registry, "KINDS", (*recipe_registry.KINDS, "unknown"))
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
def test_every_extractor_of_the_table_can_be_loaded(name):
    assert callable(EXTRACTORS[name].load())


@pytest.mark.parametrize(
    "use_extractor", [known_as, lambda name: extract_texts(pa.array(["<p>a"], pa.large_string()), name)]
)
def test_unknown_extractor_raises(use_extractor):
    with pytest.raises(ValueError, match="extract: expected one of fast, structured"):
        use_extractor("epub")
