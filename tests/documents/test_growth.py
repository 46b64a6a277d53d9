"""Test that rules take time in proportion to the length of a document, also for the worst documents."""

import json

import pyarrow as pa
import pytest
from growth import grows_linearly
from small_corpus import prose

from zyda_flows.tasks.documents.evaluation_sets import plan_set
from zyda_flows.tasks.documents.item_search import search_for
from zyda_flows.tasks.documents.licenses import license_columns
from zyda_flows.tasks.recipe.evaluation import EvaluationSet

LICENCES = {
    "brackets": "(".__mul__,
    "pairs of brackets": lambda n: "(" * n + "MIT" + ")" * n,
    "names": "MIT AND ".__mul__,
    "choices": "MIT/".__mul__,
    "exceptions": "GPL-2.0 WITH ".__mul__,
    "blanks": lambda n: "MIT" + " " * n + "x",
    "hyphens": "-".__mul__,
    "versions": "1.".__mul__,
    "slashes": lambda n: "https://x.org/" + "/" * n,
    "commas": ",".__mul__,
    "pluses": lambda n: "GPL" + "+" * n,
}


@pytest.mark.parametrize("kind", LICENCES)
def test_license_names_are_parsed_in_linear_time(kind):
    step = {"column": "license", "keep": ["MIT"], "names": {}}

    def parse(text):
        license_columns(step, pa.table({"license": [text]}))

    assert grows_linearly(parse, LICENCES[kind], 2_000)


MANY = [{"question": prose(f"question {n}", 12), "answer": prose(f"answer {n}", 4)} for n in range(500)]
MANY += [
    {"question": f"why {prose(f'short {n}', 2)}", "answer": "a dozen of these or of those"}
    for n in range(500)
]
BEGUN, ENDED = "how many beans are there in ", "the jar on the table today a dozen of them "
TEXTS = {
    "words": "beans ".__mul__,
    "items": "how many beans are there in the jar on the table today ".__mul__,
    "beginnings": "how many beans are there ".__mul__,
    "characters": "x".__mul__,
    "marks": ". ".__mul__,
    "blanks": " ".__mul__,
    "items in items": lambda n: BEGUN * n + ENDED * n,
    "many items": lambda n: " ".join(
        f"{MANY[i % 1000]['question']} {MANY[i % 1000]['answer']}" for i in range(n)
    ),
    "answer shared by many items": "a dozen of these or of those ".__mul__,
    "many short questions": lambda n: " ".join(f"why {MANY[i % 1000]['question']}" for i in range(n)),
}


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / "set.jsonl"
    item = {
        "question": "how many beans are there in the jar on the table today",
        "answer": "a dozen of them",
    }
    path.write_text("\n".join(map(json.dumps, [item, *MANY])))
    return search_for((plan_set("beans", EvaluationSet(files=[str(path)])),), 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXTS)
def test_evaluation_items_are_found_in_linear_time(search, kind):
    def search_text(text):
        texts = pa.array([text], pa.large_string())
        search.run(texts)
        search.cut(texts, 0.5)

    assert grows_linearly(search_text, TEXTS[kind], 500)
