"""Test that items of nine evaluation sets are found in the formats of pages and dumps, and not in real texts."""

import csv
import html
import io
import json
import random
import re
from itertools import chain
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import prose

from zyda_flows.tasks.documents.decontaminate import share_of
from zyda_flows.tasks.documents.evaluation_sets import EvaluationItem, items_of, plan_set
from zyda_flows.tasks.documents.item_search import search_for
from zyda_flows.tasks.recipe.evaluation import EvaluationSet

ITEMS_PER_SET = 20  # items drawn from a set
SAMPLE = [
    {
        "question": "Which of these do whales breathe through, and not gills?",
        "answer": "a blowhole on the head",
    },
    {"question": "Café owners often buy", "answer": "beans that were roasted the day before"},
    {"question": "How are eggs boiled?", "answer": "In water, for five minutes."},
    {"question": "Why is 3 < 5 & 5 > 3?", "answer": 'because "five" is more'},
    {"question": "The opposite of the number -7 is which of these numbers?", "answer": "7"},
    {"question": "Ice", "answer": "melts where it is put into a warm glass"},
    {"question": "鯨は何で呼吸しますか。えらではありません。", "answer": "頭の上の穴"},
    {"question": "ปลาวาฬหายใจผ่านทางอะไร", "answer": "รูบนหัว"},
]


def csv_row(item):
    file = io.StringIO()
    csv.writer(file).writerow([7, item.question, item.answer, "x"])
    return file.getvalue()


def xml(item):
    as_entities = {"'": "&apos;", '"': "&quot;"}
    return f"<q>{escape(item.question, as_entities)}</q><a>{escape(item.answer, as_entities)}</a>"


def in_tags(item):
    words = " ".join(f"<b>{html.escape(word)}</b>" for word in item.question.split())
    return f'<p class="question">{words}</p>\n<ul><li>{html.escape(item.answer)}</li></ul>'


def latex(item):
    question, answer = (
        re.sub(r"[#$%&_{}]", r"\\\g<0>", text.replace("\\", r"\textbackslash{}"))
        for text in (item.question, item.answer)
    )
    return f"\\item {question}\\\\\n\\textbf{{Answer:}} \\emph{{{answer}}}"


def with_soft_hyphens(item):
    return re.sub(r"(\w{3})(?=\w{2})", "\\1\u00ad", question_and_answer(item))


def with_hyphens(item):
    """Hyphenate every fifth word that is long enough, as texts in narrow columns are."""
    words = question_and_answer(item).split()
    for number in range(0, len(words), 5):
        words[number] = re.sub(r"^([^\W\d_]{3})([^\W\d_]{3,})", "\\1-\n  \\2", words[number])
    return " ".join(words)


def question_and_answer(item):
    return f"{item.question} {item.answer}"


def full_width(text):
    return "".join("\u3000" if letter == " " else widen(letter) for letter in text)


def widen(letter):
    return chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter


FORMS = {
    "CSV": csv_row,
    "JSON": lambda item: json.dumps({"question": item.question, "answer": item.answer}, separators=(",", ":")),
    "JSON of lines": lambda item: json.dumps("\n".join(item.question.split()) + "\n" + item.answer),
    "JSON in JSON": lambda item: json.dumps(json.dumps({"text": f"Q:\n{item.question}\nA:\n{item.answer}"})),
    "XML": xml,
    "attributes": lambda item: f"<item q={quoteattr(item.question)} a={quoteattr(item.answer)}/>",
    "HTML in XML": lambda item: escape(in_tags(item)),
    "HTML": in_tags,
    "LaTeX": latex,
    "soft hyphens": with_soft_hyphens,
    "hyphens at line ends": with_hyphens,
    "underscores": lambda item: "_".join(question_and_answer(item).split()),
    "zero width": lambda item: "\u200b".join(question_and_answer(item)),
    "full width": lambda item: full_width(question_and_answer(item)),
}  # fmt: skip


def search_of_files(paths):
    sets = [plan_set(path.stem, EvaluationSet(files=[str(path)])) for path in paths]
    return search_for(tuple(sets), 100), sets


def found_in(search, texts):
    """Return the (set, row) of the items in each text. No phrase counts as frequent."""
    _, items_by_text = search.run(pa.array(texts, pa.large_string()))
    return [
        {(item["set"], item["row"]) for item in items or () if share_of(item, ()) >= 0.5}
        for items in items_by_text.to_pylist()
    ]


@pytest.fixture(scope="module")
def evaluation_sets(shared):
    """Return the search for nine sets, and 20 items of each with at least eight words including the answer."""
    search, sets = search_of_files(sorted((shared / "evals").glob("*.parquet")))
    assert len(sets) == 9
    chance = random.Random(47)
    chosen = list[tuple[str, EvaluationItem]]()
    for planned in sets:
        items = (
            EvaluationItem(item.row, item.question, item.answer or "")
            for item in items_of(planned)
            if item.answer != ""
        )
        long = [item for item in items if len(re.findall(r"\w+", question_and_answer(item))) >= 8]
        chosen += [(planned.name, item) for item in chance.sample(long, ITEMS_PER_SET)]
    return search, chosen


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_items_of_published_sets_are_found(evaluation_sets, form):
    search, chosen = evaluation_sets
    pages = [f"{prose(n, 60)}\n{FORMS[form](item)}\n{prose(-n, 60)}" for n, (_, item) in enumerate(chosen, 1)]
    found_items = found_in(search, pages)
    count = sum(
        (name, item.row) in items_of_page
        for items_of_page, (name, item) in zip(found_items, chosen, strict=True)
    )
    least = 0.9 if form in {"underscores", "zero width", "full width"} else 0.95
    assert count >= least * len(chosen)


def test_no_real_document_contains_an_item(evaluation_sets, shared):
    folders = ("peps", "powershell-7.6", "powershell-concepts")
    paths = chain(*((shared / "corpora" / folder).glob("*.parquet") for folder in folders))
    texts = [text for path in paths for text in pq.read_table(path).column("text").to_pylist()]
    assert len(texts) > 1_800
    assert not any(found_in(evaluation_sets[0], texts))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "attributes"])
def test_items_of_a_small_set_are_found(tmp_path, form):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, SAMPLE)))
    search, (planned,) = search_of_files([path])
    items = [*items_of(planned)]
    pages = [f"{prose(n, 60)}\n{FORMS[form](item)}\n{prose(-n, 60)}" for n, item in enumerate(items, 1)]
    assert found_in(search, pages) == [{("own", item.row)} for item in items]


def test_item_in_a_language_without_spaces_is_found_in_attributes(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, SAMPLE[-2:])))
    search, (planned,) = search_of_files([path])
    for n, item in enumerate(items_of(planned)):
        for form in ("<item q='{}' a='{}'/>", '<img alt="{}"> {}'):
            page = f"{prose(n, 60)} {form.format(item.question, item.answer)} {prose(-n, 60)}"
            assert found_in(search, [page]) == [{("own", item.row)}], page


APART = {
    "answer within the question": "The opposite of the number -7 is which of these numbers?",
    "the question alone": "Café owners often buy",
    "the answer alone": "beans that were roasted the day before",
    "the answer first": "beans that were roasted the day before Café owners often buy",
    "too many words between": f"Café owners often buy {prose('between', 12)} beans that were roasted the day before",
    "a word of the answer differs": "Café owners often buy beans that were roasted the night before",
}  # fmt: skip


def test_question_and_answer_of_a_short_item_match_only_near_each_other(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, SAMPLE)))
    search, _ = search_of_files([path])
    assert not any(found_in(search, [f"{prose('a', 40)} {text} {prose('b', 40)}" for text in APART.values()]))
