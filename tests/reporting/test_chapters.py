"""Test the chapters of the report, and the example figure of CONTRIBUTING.md."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from inspect import get_annotations, isfunction
from types import ModuleType

import pytest
from small_corpus import REPOSITORY, build_here, table_of

from zyda_flows.flows import reporting
from zyda_flows.flows.reporting import report_page
from zyda_flows.flows.reporting.report_about import ABOUT_CHAPTERS, about_sections
from zyda_flows.flows.reporting.report_markdown import as_markdown
from zyda_flows.flows.reporting.report_page import CHAPTERS, sections
from zyda_flows.flows.reporting.report_parts import Section
from zyda_flows.tasks.lookup.report_data import Findings, findings_of

GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("## Add a figure to the report\n")[2]
SIGNATURE = {"findings": Findings, "return": Iterator[Section]}


@pytest.fixture
def guide():
    """Return the module of the guide."""
    module = ModuleType("zyda_flows.flows.reporting.report_shares")
    exec(re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)[1], vars(module))
    return module


def chapters_in(module):
    """Return the functions of a module that take the findings of a corpus and yield sections."""
    return {
        function
        for function in vars(module).values()
        if isfunction(function)
        and function.__module__ == module.__name__
        and get_annotations(function) == SIGNATURE
    }


def test_every_chapter_is_registered_for_a_page():
    modules = [
        importlib.import_module(f"{reporting.__name__}.{module.name}")
        for module in pkgutil.iter_modules(reporting.__path__)
    ]
    defined = set[object]().union(*map(chapters_in, modules)) - {sections, about_sections}
    assert defined == {*CHAPTERS, *ABOUT_CHAPTERS}


def test_chapter_of_the_guide_has_the_signature_of_a_chapter(guide):
    assert chapters_in(guide) == {guide.shares_of_documents}


def test_figure_of_the_guide_is_in_the_report(corpus, guide, monkeypatch):
    monkeypatch.setattr(report_page, "CHAPTERS", (*CHAPTERS, guide.shares_of_documents))
    recipe = corpus.load()
    build_here(recipe)
    findings = findings_of(recipe)
    *_, last = sections(findings)
    assert last.plot.startswith("<svg")
    documents = {source.name: len(table_of(recipe, source.name)) for source in recipe.sources}
    assert last.tables[0].rows == [[source, str(number)] for source, number in documents.items()]
    markdown = as_markdown(recipe, findings, [last])
    assert "## Share of documents" in markdown
    assert f"| best | {documents['best']} |" in markdown
