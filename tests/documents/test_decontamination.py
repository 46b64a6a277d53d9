"""Test that items of evaluation sets are found in documents in each form, and similar texts are not matched."""

from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import build_here, kept_names, prose, rows, table_of, write_rows

from zyda_flows.flows.command.explain import print_explanation
from zyda_flows.tasks.documents import item_search
from zyda_flows.tasks.documents.evaluation_sets import plan_set
from zyda_flows.tasks.documents.item_search import search_for
from zyda_flows.tasks.documents.item_words import word_hashes, word_places
from zyda_flows.tasks.ingest import file_pieces
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe.evaluation import EvaluationSet
from zyda_flows.tasks.recipe.loading import load_recipe

LONG = {
    "question": "A gardener waters one of two equal rows of beans each morning and the other each evening, and then weighs "
    "what she picks. Which quantity does she change on purpose between the two rows?",
    "choices": ["the weight", "the time of watering", "the kind of bean", "the length of a row"],
    "answer": 1,
}
SHORT = {
    "question": "Which metal is liquid at room temperature?",
    "choices": ["iron", "mercury"],
    "answer": 1,
}
SHORTER = {
    "question": "Whales breathe through",
    "choices": ["gills", "a blowhole on top of the head"],
    "answer": 1,
}
TINY = {"question": "Why?", "choices": ["because", "no"], "answer": 0}
PUBLIC = "the people of the village hold these meadows in common and no lord may fence them while grass grows there"
QUOTING = {
    "question": f"{PUBLIC}. What does the charter forbid?",
    "choices": ["grass", "fences"],
    "answer": 1,
}
ITEMS = [LONG, SHORT, SHORTER, TINY, QUOTING]


def with_answer(item):
    return f"{item['question']} {item['choices'][item['answer']]}"


@pytest.fixture
def set_file(corpus):
    path = corpus.folder / "set.parquet"
    pq.write_table(pa.Table.from_pylist(ITEMS), path)
    return path


@pytest.fixture
def recipe_with(corpus, set_file):
    """Return a function that writes texts and loads a recipe that searches them for the set."""

    def load(texts, **settings):
        if texts:
            write_rows(corpus.folder / "in/best-0.parquet", rows(**texts))
        step = {"decontaminate": {"sets": {"beans": str(set_file)}, **settings}}
        return corpus.load(sources=[{"name": "best", "files": "in/best-0.parquet"}], documents=[step])

    return load


def removed(recipe):
    return {row["doc_id"]: row for row in table_of(recipe, "removed") if row["stage"] == "decontaminate"}


PLANTED = {
    "unchanged": with_answer(LONG),
    "other case": with_answer(LONG).upper(),
    "other punctuation": with_answer(LONG).replace(",", " --").replace("?", " ...").replace(" ", "  "),
    "across lines": with_answer(LONG).replace(" ", "\n\t"),
    "with choices": f"{LONG['question']}\n(A) {' (B) '.join(LONG['choices'])}\nAnswer: B",
    "cut": f"... {with_answer(LONG)[60:]}",
    "in a long page": f"{prose('a', 500)} {with_answer(LONG)} {prose('b', 500)}",
    "short": f"Quiz! {SHORT['question']} It is MERCURY.",
    "answer after the question": f"{prose('c', 50)} whales breathe through a blowhole on top of the head",
}
HALVES = [" ".join(words) for words in (LONG["question"].split()[:18], LONG["question"].split()[18:])]
INNOCENT = {
    "the question alone": LONG["question"] + prose("d", 200),
    "the answer far away": f"{SHORT['question']} {prose('e', 200)} mercury",
    "the answer alone": f"{prose('f', 30)} the time of watering",
    "a part": " ".join(with_answer(LONG).split()[:15]) + " the time of watering",
    "parts far from each other": f"{HALVES[0]} {prose('i', 300)} {HALVES[1]} the time of watering",
    "too short": f"Why? because {prose('g', 30)}",
    "quoted public text": f"{PUBLIC}, and so there are no fences. {prose('h', 50)}",
    "other words": with_answer(LONG)
    .replace("beans", "peas")
    .replace("weighs", "counts")
    .replace("change", "vary"),
}


@pytest.mark.parametrize("form", PLANTED)
def test_item_is_found_in_each_form(set_file, form):
    assert contain_item([PLANTED[form]], set_file) == [True]


@pytest.mark.parametrize("form", INNOCENT)
def test_similar_text_is_not_an_item(set_file, form):
    is_quoted = form == "quoted public text"
    assert contain_item([INNOCENT[form]], set_file, frequent=PUBLIC if is_quoted else "") == [False]


def contain_item(texts, set_file, *, frequent=""):
    """Return, for each text, whether it contains an item. frequent: a text whose phrases are no evidence."""
    from zyda_flows.tasks.documents.decontaminate import share_of

    search = search_for((plan_set("beans", EvaluationSet(files=[str(set_file)])),), 100)
    phrases, items_by_text = search.run(pa.array([*texts, frequent], pa.large_string()))
    dropped = {phrase["phrase"] for phrase in phrases[-1].as_py() or ()}
    return [
        any(share_of(item, dropped) >= 0.5 for item in items or ())
        for items in items_by_text[:-1].to_pylist()
    ]


def test_contaminated_documents_are_removed_with_evidence_and_remove_no_duplicates(recipe_with):
    leak = f"{prose('leak', 60)} {with_answer(LONG)}"
    recipe = recipe_with(
        {"one": prose("one"), "leak": leak, "copy": leak + " too", "short": PLANTED["short"]}
    )
    ledger = build_here(recipe)
    assert kept_names(recipe) == {"one"}
    rows_by_place = {row["doc_id"] & 0xFFFF: row for row in removed(recipe).values()}
    assert {row["reason"] for row in rows_by_place.values()} == {"beans"}
    assert rows_by_place[1]["item"] == 0
    assert rows_by_place[1]["note"] == LONG["question"]
    assert leak[rows_by_place[1]["at"] :].startswith(LONG["question"])
    assert rows_by_place[3]["item"] == 1
    assert ledger.removed("decontaminate").documents == 3
    assert not ledger.removed(
        "removals"
    ).documents  # the two similar documents were removed before deduplication
    (account,) = table_of(recipe, "contamination")
    assert (account["items"], account["too_short"], account["unanswered"], account["frequent"]) == (
        5,
        1,
        0,
        0,
    )
    card = recipe.folder.read("published/README.md").decode()
    assert "| beans | 5 | 1 | 0 | 0 |" in card
    assert "it contains a question of beans with its answer" in card


def test_frequent_phrases_are_no_evidence(recipe_with):
    """A question that quotes a public text matches only by its own words; documents with the public text are kept."""
    public = {f"public{n}": f"{prose(f'p{n}', 20)} {PUBLIC} fences" for n in range(8)}
    leak = {"one": prose("one"), "leak": with_answer(QUOTING)}
    often = recipe_with({**public, **leak}, frequent_documents=7)
    build_here(often)
    assert kept_names(often) == {"one", *public}
    assert table_of(often, "contamination")[0]["frequent"] > 5
    rare = recipe_with({}, frequent_documents=50)
    build_here(rare)
    assert kept_names(rare) == {"one"}


def test_action_mark_keeps_documents_and_names_the_sets(recipe_with):
    recipe = recipe_with({"one": prose("one"), "leak": with_answer(LONG)}, action="mark")
    build_here(recipe)
    marks = {row["name"]: row["contamination"] for row in table_of(recipe, "best")}
    assert marks == {"one": None, "leak": ["beans"]}
    assert "contamination` names the sets" in recipe.folder.read("published/README.md").decode()


def test_action_cut_removes_only_the_passages(recipe_with, set_file):
    around, before = prose("around", 200), prose("before", 20)
    texts = {
        "one": prose("one"), "leak": f"{before}\n\n{with_answer(LONG)}; {around}", "alone": with_answer(LONG),
        "apart": f"{LONG['question']} {before} {LONG['choices'][1]}; {around}",
        "twice": f"{with_answer(LONG)} {around} {before} {with_answer(LONG).upper()}! {around}",
        "nested": f"{around} {' '.join(LONG['question'].split()[:20])} {with_answer(LONG)} "
        f"{' '.join(LONG['question'].split()[20:])} {LONG['choices'][1]}",
        "unanswered": f"{LONG['question']} {around}",
    }  # fmt: skip
    recipe = recipe_with(texts, action="cut")
    ledger = build_here(recipe)
    published = {row["name"]: row for row in table_of(recipe, "best")}
    assert {name: row["text"] for name, row in published.items() if name != "nested"} == {
        "one": texts["one"], "leak": f"{before}\n\n {around}", "apart": f" {before}  {around}",
        "twice": f" {around} {before}  {around}", "unanswered": texts["unanswered"],
    }  # fmt: skip
    assert published["nested"]["text"].rstrip() == around
    assert {name for name, row in published.items() if row["contamination"]} == {
        "leak",
        "apart",
        "twice",
        "nested",
    }
    assert [row["reason"] for row in table_of(recipe, "removed")] == ["decontaminate.emptied"]
    (cleaned,) = pq.read_table(f"{recipe.folder.url}/published/cleaned.parquet").to_pylist()
    assert (cleaned["cleaning"], cleaned["documents"]) == ("decontaminate", 5)
    assert ledger.removed("decontaminate").documents == 0
    assert not any(
        contain_item([row["text"] for row in published.values() if row["name"] != "unanswered"], set_file)
    )
    assert (
        "The passages that contain items were cut from the documents"
        in recipe.folder.read("published/README.md").decode()
    )


def test_source_column_named_contamination_is_renamed(recipe_with, corpus):
    row = {"name": "leak", "text": with_answer(LONG), "contamination": "its own"}
    write_rows(corpus.folder / "in/best-0.parquet", [row])
    recipe = recipe_with({}, action="mark")
    build_here(recipe)
    (published,) = table_of(recipe, "best")
    assert (published["contamination"], published["source_contamination"]) == (["beans"], "its own")


def test_moving_a_set_does_not_change_its_key(set_file):
    planned = plan_set("a", EvaluationSet(files=[str(set_file)]))
    moved = set_file.rename(set_file.with_name("moved.parquet"))
    assert plan_set("a", EvaluationSet(files=[str(moved)])).model_dump() == planned.model_dump()


def test_changed_share_does_not_read_texts_again(recipe_with, monkeypatch):
    texts = {"one": prose("one"), "cut": " ".join(with_answer(LONG).split()[8:])}
    strict = recipe_with(texts, share=0.9)
    build_here(strict)
    assert kept_names(strict) == {"one", "cut"}
    monkeypatch.setattr(file_pieces, "ingest_chunks", None)
    recipe = recipe_with({}, share=0.3)
    build_here(recipe)
    assert kept_names(recipe) == {"one"}


def test_trial_shows_the_items(recipe_with):
    trial = try_steps(recipe_with({"one": prose("one"), "leak": with_answer(LONG)}), 10)
    assert trial.remaining == 1
    (example,) = trial.rules["decontaminate"].examples
    assert example.value.startswith("beans, item 0: A gardener waters")


def test_explain_names_the_item_and_its_set(recipe_with, capsys):
    recipe = recipe_with({"leak": with_answer(LONG), "one": prose("one")})
    build_here(recipe)
    (doc_id,) = removed(recipe)
    print_explanation(explain(recipe, str(doc_id)))
    assert "it contains a question of beans with its answer" in " ".join(capsys.readouterr().out.split())


def test_path_of_a_set_is_relative_to_the_recipe(corpus, set_file):
    path = corpus.write(documents=[{"decontaminate": {"sets": {"beans": "set.parquet"}}}])
    (step,) = load_recipe(path).documents
    assert step.decontaminate.sets["beans"].files == (str(set_file),)


def test_places_of_words_are_found_between_any_separators():
    text = "one  -- two,\n three \u2026 four\x1ffive\u2003six\u0085seven"
    words = [text[start:stop] for start, stop in word_places(text)]
    assert words == ["one", "two", "three", "four", "five", "six", "seven"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_number_of_word_places_equals_number_of_word_hashes(text):
    text = text.encode("utf-8", "ignore").decode()
    words, _ = word_hashes(pa.array([text], pa.large_string()))
    assert len(word_places(text)) == len(words)


def test_words_of_a_document_with_many_items_are_located_only_once(set_file, monkeypatch):
    """The number of items does not change the number of searches."""
    spy = Mock(wraps=item_search.word_places)
    monkeypatch.setattr(item_search, "word_places", spy)
    assert contain_item(["\n".join(map(with_answer, ITEMS))], set_file) == [True]
    assert spy.call_count == 1
