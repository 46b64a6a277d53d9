"""Test which phrases of evaluation items count as frequent: by their surroundings and each source's thresholds.

The published table `contamination` has the counts.
"""

import json

import pytest
from small_corpus import build_here, kept_names, prose, rows, table_of, write_rows

LEAKED = {
    "question": "A gardener waters one of two equal rows of beans each morning and the other each evening and weighs them",
    "answer": "the time of watering",
}
SHORT = {"question": "Which metal is liquid at room temperature?", "answer": "mercury"}
PUBLIC = "the people of the village hold these meadows in common and no lord may fence them while grass grows there"
QUOTING = {"question": f"{PUBLIC}. What does the charter forbid?", "answer": "fences"}
TINY = {"question": "Why?", "answer": "because"}
SECRET = {"question": "Which of these is the answer to all questions of this set?", "answer": ""}
ITEMS = [LEAKED, SHORT, QUOTING, TINY, SECRET]


def with_answer(item):
    return f"{item['question']} {item['answer']}"


def surround(name, text):
    return f"{prose(f'{name} before', 60)} {text} {prose(f'{name} behind', 60)}"


@pytest.fixture
def set_file(corpus):
    path = corpus.folder / "set.jsonl"
    path.write_text("\n".join(map(json.dumps, ITEMS)))
    return str(path)


def load_with_sources(corpus, **steps):
    """Load a recipe with a source per step `decontaminate`; source NAME has the file `in/NAME-0.parquet`."""
    sources = [
        {"name": name, "files": f"in/{name}-0.parquet", "documents": [{"decontaminate": step}]}
        for name, step in steps.items()
    ]
    return corpus.load(sources=sources)


def test_copies_and_near_copies_of_a_page_do_not_make_its_phrases_frequent(corpus, set_file):
    page = surround("page", with_answer(LEAKED))
    near = surround("near", with_answer(SHORT)).split()
    texts = {"one": prose("one")}
    texts |= {f"copy{n}": page for n in range(101)}
    texts |= {
        f"head{n}": f"Mirror {n} of the page. {surround('head', with_answer(QUOTING))} seen {n} times"
        for n in range(101)
    }
    texts |= {f"near{n}": " ".join([*near[:50], f"edit{n}", *near[51:]]) for n in range(101)}
    texts |= {f"bare{n}": f"{with_answer(LEAKED)} {n}" for n in range(101)}
    write_rows(corpus.folder / "in/best-0.parquet", rows(**texts))
    recipe = load_with_sources(corpus, best={"sets": {"beans": set_file}})
    ledger = build_here(recipe)
    assert kept_names(recipe) == {"one"}
    assert ledger.removed("decontaminate").documents == 404
    (account,) = table_of(recipe, "contamination")
    assert (account["frequent"], account["too_frequent"]) == (0, 0)
    assert "| 404 |" in recipe.folder.read("published/README.md").decode()


def test_each_source_has_its_own_thresholds_and_row_of_the_contamination_table(corpus, set_file):
    public = [surround(f"public{n}", f"{PUBLIC} fences") for n in range(8)]
    metals = [surround(f"metal{n}", SHORT["question"]) for n in range(8)]
    leaks = [surround("leak", with_answer(SHORT)), surround("leak too", with_answer(QUOTING))]
    texts = [*public, *metals, *leaks]
    names = ("best", "middle", "worst")
    for name in names:
        # Each document has different words around its text: 24 surroundings for each public text.
        documents = {
            f"{name}{n}": text if n > 15 else surround(f"{name}{n}", text) for n, text in enumerate(texts)
        }
        write_rows(corpus.folder / f"in/{name}-0.parquet", rows(**documents))
    sets = {"sets": {"beans": set_file}}
    steps = {
        "best": sets, "middle": {**sets, "frequent_documents": 7, "answer_within": 90},
        "worst": {**sets, "frequent_documents": 7, "action": "cut"},
    }  # fmt: skip
    recipe = load_with_sources(corpus, **steps)
    ledger = build_here(recipe)
    metal_pages, all_pages = ({f"{{}}{n}" for n in numbers} for numbers in (range(8, 16), range(18)))
    kept = {name.format("best") for name in metal_pages}
    kept |= {name.format("middle") for name in all_pages} - {"middle17"}
    kept |= {name.format("worst") for name in all_pages}
    assert kept_names(recipe) == kept
    accounts = {row["sources"][0]: row for row in table_of(recipe, "contamination")}
    assert {name: len(row["sources"]) for name, row in accounts.items()} == dict.fromkeys(names, 1)
    for row in accounts.values():
        assert (row["items"], row["too_short"], row["unanswered"]) == (5, 1, 1)
    counts = {name: (row["too_frequent"], row["frequent"] > 10) for name, row in accounts.items()}
    assert counts == {"best": (0, False), "middle": (1, True), "worst": (0, False)}
    removed = {name: ledger.removed("decontaminate", name).documents for name in names}
    assert removed == {"best": 10, "middle": 1, "worst": 0}
    card = recipe.folder.read("published/README.md").decode()
    for name, most, answers in (("best", 100, 100), ("middle", 7, 90), ("worst", 7, 100)):
        _, _, account = card.partition(f"Sources {name}:")
        account = " ".join(account.partition("Sources ")[0].split())
        assert f"surroundings than {most}," in account
        assert f"within {answers} words" in account
        row = accounts[name]
        assert (
            f"| beans | 5 | 1 | 1 | {row['too_frequent']} | {row['phrases']} | {row['frequent']} | {removed[name]} |"
            in account
        )
        assert ("passages that contain items" in account) == (name == "worst")


def test_sources_with_one_step_have_one_account(corpus, set_file):
    sources = [{"name": name, "files": f"in/{name}-0.parquet"} for name in ("best", "middle")]
    for source in sources:
        write_rows(corpus.folder / source["files"], rows(one=prose(source["name"])))
    recipe = corpus.load(sources=sources, documents=[{"decontaminate": {"sets": {"beans": set_file}}}])
    build_here(recipe)
    (account,) = table_of(recipe, "contamination")
    assert account["sources"] == ["best", "middle"]
    assert "Sources best" not in recipe.folder.read("published/README.md").decode()
