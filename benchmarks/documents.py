"""Measure steps on documents on one core: cleaning and rule sets, and datatrove's filters beside them.

Each rule set is measured with all its rules (as with `keep_text`). All sets together are also measured as in a
build, where a document that a rule removed is skipped after the next cleaning. 150 made terms replace Zyda-1's
word lists. datatrove filters as many of the same documents as it can in about half a minute.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.corpora import WORDS, load_texts, megabytes_of, write_recipe
from benchmarks.harness import (
    DEMO,
    OtherPython,
    Table,
    TextsFolder,
    benchmark,
    datatrove_speeds,
    shortest_time,
)
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS

TERMS = 150
BATCH = 1000  # documents in memory, as in a build
CLEANINGS = ("zyda1", "newlines", "control_characters", "unicode", "refinedweb-lines", "pii")
PERSONAL = ("mail", "ip", "iban", "card", "phone")
DATATROVE_SECONDS = 8  # for each filter
DATATROVE_IMPORTS = """
from datatrove.pipeline.filters import C4QualityFilter, FineWebQualityFilter
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter
from datatrove.pipeline.formatters import PIIFormatter
def on_text(filter):
    return lambda text: filter.filter(Document(text=text, id="0"))
"""
DATATROVE_FILTERS = """{
    "gopher-repetition": on_text(GopherRepetitionFilter()), "gopher-quality": on_text(GopherQualityFilter()),
    "c4": on_text(C4QualityFilter(filter_no_terminal_punct=False)), "fineweb": on_text(FineWebQualityFilter()),
    "pii": PIIFormatter().format,
}"""
DATATROVE_SETS = ("gopher-repetition", "gopher-quality", "c4", "fineweb")


def plan_steps(steps: list[dict[str, Any]], *, keep_text: bool) -> DocumentPlan:
    with tempfile.TemporaryDirectory() as folder:
        chance = random.Random(0)
        terms = [f"{chance.choice(WORDS)} {chance.choice(WORDS)}" for _ in range(TERMS)]
        (Path(folder) / "terms.txt").write_text("\n".join(terms))
        sources = {"only": "documents.parquet"}
        path = write_recipe(Path(folder), "steps", sources, documents=steps, keep_text=keep_text)
        return plan_documents(load_recipe(path), "only")


def filter_step(name: str) -> dict[str, Any]:
    return {"filter": {name: {"lists": {"profanity": "terms.txt"}} if RULE_SETS[name].lists else {}}}


def removing_sets() -> list[str]:
    """Return the rule sets that remove documents by default."""
    return [
        name
        for name, rule_set in RULE_SETS.items()
        if any(rule[:2] != (None, None) for rule in rule_set.rules.values()) and not rule_set.by_language
    ]


def run_in_batches(plan: DocumentPlan, texts: pa.LargeStringArray) -> None:
    for start in range(0, len(texts), BATCH):
        run_steps(plan, texts[start : start + BATCH])


def measured_steps() -> Iterator[tuple[str, list[dict[str, Any]], bool]]:
    """Yield (name, steps, whether all rules are measured)."""
    for name in removing_sets():
        yield f"filter: {name}", [filter_step(name)], True
    all_sets = [filter_step(name) for name in removing_sets()]
    yield f"filter: all {len(all_sets)}", all_sets, True
    yield f"filter: all {len(all_sets)}, as in a build", all_sets, False
    yield "Zyda-1's cleaning and filter, as in a build", [{"clean": "zyda1"}, filter_step("zyda1")], False
    yield "filter: datatrove's four", [filter_step(name) for name in DATATROVE_SETS], True
    for name in CLEANINGS:
        yield f"clean: {name}", [{"clean": name}], True
    yield "clean: pii, all five kinds", [{"clean": {"pii": list(PERSONAL)}}], True
    yield "clean: c4's lines", [{"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}}], True


@benchmark("documents")
def measure(folder: TextsFolder = DEMO, python: OtherPython = "") -> Iterator[Table]:
    texts = load_texts(folder, 40)
    size = megabytes_of(texts)
    theirs = dict[str, float]()
    if python:
        speeds = datatrove_speeds(python, DATATROVE_IMPORTS, DATATROVE_FILTERS, DATATROVE_SECONDS, texts)
        theirs = {"clean: pii": speeds.pop("pii")}
        theirs |= {f"filter: {name}": speed for name, speed in speeds.items()}
        theirs["filter: datatrove's four"] = 1 / sum(1 / speed for speed in speeds.values())
    rows = []
    for name, steps, keep_text in measured_steps():
        plan = plan_steps(steps, keep_text=keep_text)
        run_steps(plan, texts[:BATCH])  # compiles
        spent = shortest_time(lambda plan=plan: run_in_batches(plan, texts))
        other = f"{theirs[name]:.2g}" if name in theirs else ""
        rows.append(
            {"steps": name, "MB/s": size / spent, "documents/s": len(texts) / spent, "datatrove, MB/s": other}
        )
    yield Table(f"Steps on documents, {len(texts):,} documents, {size:.1f} MB, one core", rows)


if __name__ == "__main__":
    measure.main()
