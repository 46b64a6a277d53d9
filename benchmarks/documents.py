"""Steps on documents: cleaning and rule sets on one core, alone and together, and datatrove's filters beside them.

python -m benchmarks.documents [FOLDER] [PYTHON_WITH_DATATROVE]

Each set is measured whole (as with `keep_text`) and, all together, as a build does it, where a document that went
by one rule is not looked at by what comes after the next cleaning. Zyda-1's lists are 150 made-up terms here.
datatrove runs in an environment of its own, on as many of the same documents as it does in half a minute.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.duplicates import WORDS
from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, megabytes_of, seconds, show
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS

TERMS = 150
AT_ONCE = 1000  # documents that are in memory together, as in a build
CLEANINGS = ("zyda1", "newlines", "control_characters", "unicode", "refinedweb-lines")
DATATROVE = """
import sys, time
import pyarrow.parquet as pq
from datatrove.data import Document
from datatrove.pipeline.filters import C4QualityFilter, FineWebQualityFilter
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter
texts = pq.read_table(sys.argv[1]).column("text").to_pylist()
filters = {
    "gopher-repetition": GopherRepetitionFilter(), "gopher-quality": GopherQualityFilter(),
    "c4": C4QualityFilter(filter_no_terminal_punct=False), "fineweb": FineWebQualityFilter(),
}
for name, one in filters.items():
    one.filter(Document(text=texts[0], id="0"))
    spent, size = 0.0, 0
    for text in texts:
        start = time.perf_counter()
        one.filter(Document(text=text, id="0"))
        spent += time.perf_counter() - start
        size += len(text.encode())
        if spent > 8:
            break
    print(name, size / 1e6 / spent)
"""


def plan_of(steps: list[dict[str, Any]], *, keep_text: bool) -> DocumentPlan:
    """Plan the steps of a recipe that has these."""
    with tempfile.TemporaryDirectory() as folder:
        chance = random.Random(0)
        terms = [f"{chance.choice(WORDS)} {chance.choice(WORDS)}" for _ in range(TERMS)]
        (Path(folder) / "terms.txt").write_text("\n".join(terms))
        recipe = {
            "name": "steps", "storage": "out", "documents": steps, "keep_text": keep_text,
            "tokenizer": str(REPOSITORY / "recipes/models/demo-tokenizer.json"),
            "sources": [{"name": "only", "files": "documents.parquet"}],
        }  # fmt: skip
        path = Path(folder) / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe))
        return plan_documents(load_recipe(str(path)), "only")


def set_named(name: str) -> dict[str, Any]:
    return {"filter": {name: {"lists": {"profanity": "terms.txt"}} if RULE_SETS[name].lists else {}}}


def sets_with_values() -> list[str]:
    """Name the sets that let something go as they are; those of personal data are in `benchmarks.personal`."""
    return [
        name
        for name, of_set in RULE_SETS.items()
        if any(rule[:2] != (None, None) for rule in of_set.rules.values()) and not of_set.by_language
    ]


def run_in_batches(plan: DocumentPlan, texts: pa.LargeStringArray) -> None:
    for start in range(0, len(texts), AT_ONCE):
        run_steps(plan, texts[start : start + AT_ONCE])


def datatrove(python: str, texts: pa.LargeStringArray) -> dict[str, float]:
    """Return the MB/s of datatrove's filters, by the name of the set."""
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table({"text": texts}), Path(folder) / "texts.parquet")
        command = [python, "-c", DATATROVE, str(Path(folder) / "texts.parquet")]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return {name: float(speed) for name, speed in map(str.split, said.splitlines())}


def main(folder: Path = DEMO, python: str | None = None) -> None:
    texts = load_texts(folder, 40)
    size = megabytes_of(texts)
    theirs = datatrove(python, texts) if python else {}
    rows: list[dict[str, str | float]] = []

    def measure(what: str, steps: list[dict[str, Any]], *, keep_text: bool = True, of: str = "") -> None:
        plan = plan_of(steps, keep_text=keep_text)
        run_steps(plan, texts[:AT_ONCE])  # compiles
        spent = seconds(lambda: run_in_batches(plan, texts))
        row: dict[str, str | float] = {
            "steps": what, "MB/s": size / spent, "documents/s": len(texts) / spent,
            "datatrove, MB/s": f"{theirs[of]:.2g}" if of in theirs else "",
        }  # fmt: skip
        rows.append(row)

    for name in sets_with_values():
        measure(f"filter: {name}", [set_named(name)], of=name)
    measure("filter: all seven", [set_named(name) for name in sets_with_values()])
    measure(
        "filter: all seven, as in a build", [set_named(name) for name in sets_with_values()], keep_text=False
    )
    zyda1 = [{"clean": "zyda1"}, set_named("zyda1")]
    measure("Zyda-1's cleaning and filter, as in a build", zyda1, keep_text=False)
    if theirs:
        theirs["its four"] = 1 / sum(1 / speed for speed in theirs.values())
    four = [set_named(name) for name in ("gopher-repetition", "gopher-quality", "c4", "fineweb")]
    measure("filter: datatrove's four", four, of="its four")
    for name in CLEANINGS:
        measure(f"clean: {name}", [{"clean": name}])
    measure("clean: c4's lines", [{"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}}])
    show(f"Steps on documents, {len(texts):,} documents, {size:.1f} MB, one core", rows)


if __name__ == "__main__":
    as_workers_are()
    main(*map(Path, sys.argv[1:2]), *sys.argv[2:3])
