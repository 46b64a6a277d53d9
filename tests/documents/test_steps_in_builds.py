"""Test document steps in a build: cleaned and removed documents, and their counts in the ledger."""

import gzip
import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, contents, kept_names, prose, rows, table_of, write_rows, zyda, zyda_here

from zyda_flows.flows.command.explain import decision, print_explanation
from zyda_flows.flows.dashboard.report_artifact import write_report
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.documents.functions import load_function
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.ingest import file_pieces
from zyda_flows.tasks.ingest import ingest as ingesting
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.report_data import findings_of
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.storage.tables import read_table

DIGITS, RUNS, SHORT = "1234 5678 " * 40, "a-" + "-" * 60 + " " + prose("runs"), "Only this."
XML = "xml " * 40 + prose("xml")
STEPS = [{"clean": "zyda1"}, {"filter": "zyda1"}]


@pytest.fixture
def raw(corpus):
    """Return the small corpus with documents that rules remove, some of them near-duplicates of each other."""
    write_rows(
        corpus.folder / "in/best-5.parquet",
        rows(digits=DIGITS, runs=RUNS, short=SHORT, xml=XML, digits_too=DIGITS),
    )
    write_rows(
        corpus.folder / "in/worst-5.jsonl.zst", rows(xml_again=XML, dashes="-" * 50, emptied="\n" * 30)
    )
    corpus.recipe["documents"] = STEPS
    return corpus


def removed(recipe, stage="rules"):
    return {row["doc_id"]: row for row in table_of(recipe, "removed") if row["stage"] == stage}


def test_rules_remove_documents_with_evidence(raw):
    recipe = raw.load()
    ledger = build_here(recipe)
    assert {"runs"} <= kept_names(recipe)
    assert not {"digits", "short", "xml", "xml_again", "dashes"} & kept_names(recipe)
    reasons = [row["reason"] for row in removed(recipe).values()]
    assert reasons.count("zyda1.digits") == 2
    assert reasons.count("zyda1.xml") == 2
    for row in removed(recipe).values():
        low, high = {
            "length": (100, None), "mean_word_length": (3, 12), "digits": (None, 0.2), "xml": (None, 10),
        }[row["reason"].removeprefix("zyda1.")]  # fmt: skip
        assert row["threshold"] in (low, high)
        assert (row["value"] < low) if row["threshold"] == low else (row["value"] > high)
    per_rule = {row["reason"]: 0 for row in removed(recipe).values()}
    for row in ledger.reasons().to_pylist():
        if row["stage"] == "rules":
            per_rule[row["reason"]] += row["documents"]
    assert per_rule == {reason: reasons.count(reason) for reason in reasons}
    # Tokens in = tokens out + the tokens that each rule removed.
    assert ledger.of("ingest").tokens - ledger.of("rules").tokens == sum(
        counts.tokens for counts in ledger.removed_by("rules").values()
    )


def test_cleaned_text_is_published_and_its_tokens_are_counted(raw):
    recipe = raw.load()
    ledger = build_here(recipe)
    (runs,) = [row for row in table_of(recipe, "best") if row["name"] == "runs"]
    assert runs["text"] == "a- " + prose("runs")
    uncleaned = raw.load(name="never", documents=[])
    build_here(uncleaned)
    (original,) = [row for row in table_of(uncleaned, "best") if row["name"] == "runs"]
    assert original["text"] == RUNS
    assert runs["n_tokens"] < original["n_tokens"]
    (cleaned,) = [row for row in ledger.cleaned().to_pylist() if row["source"] == "best"]
    assert (cleaned["cleaning"], cleaned["documents"]) == ("zyda1", 1)
    assert cleaned["characters_before"] - cleaned["characters_after"] == len(RUNS) - len(runs["text"])
    with recipe.folder.open("published/cleaned.parquet") as file:
        assert pq.read_table(file) == ledger.cleaned()
    with recipe.folder.open("published/reasons.parquet") as file:
        assert pq.read_table(file) == ledger.reasons()


def test_text_of_removed_documents_is_not_stored(raw):
    recipe = raw.load()
    build_here(recipe)
    for path in recipe.folder.files("work/ingest/best"):
        if path.endswith(".parquet"):
            with recipe.folder.open(path) as file:
                texts = pq.read_table(file, columns=["text"]).column("text").to_pylist()
            assert DIGITS not in texts
    row = next(row for row in removed(recipe).values() if row["reason"] == "zyda1.digits")
    explanation = explain(recipe, str(row["doc_id"]))
    assert explanation.text == DIGITS
    assert re.search(r"reason zyda1\.\w+: .*\(value .*, threshold ", decision(explanation))


def test_explanation_shows_the_text_of_a_removed_document(raw, capsys):
    recipe = raw.load()
    build_here(recipe)
    doc_id = next(doc_id for doc_id, row in removed(recipe).items() if row["reason"] == "zyda1.xml")
    print_explanation(explain(recipe, str(doc_id)))
    shown = capsys.readouterr().out
    assert 'it contains "xml" too often' in shown
    assert "text, unchanged from its source:\n  xml xml xml" in shown


def test_documents_removed_by_rules_do_not_change_deduplication(raw):
    recipe = raw.load()
    build_here(recipe)
    removed_ids = set(removed(recipe))
    assert not removed_ids & {row["doc_id"] for row in table_of(recipe, "clusters")}
    for name in ("best-5.parquet", "worst-5.jsonl.zst"):
        (raw.folder / "in" / name).unlink()
    write_rows(raw.folder / "in/best-5.parquet", rows(runs=RUNS))
    never = raw.load(name="never")
    build_here(never)
    assert kept_names(recipe) == kept_names(never)
    assert len(table_of(recipe, "clusters")) == len(table_of(never, "clusters")) > 0


def test_reason_is_the_first_rule_in_recipe_order_and_also_lists_the_others(raw):
    gopher = {"filter": {"zyda1": {"xml": None, "mean_word_length": [3.5, None]}}}
    own_rule = {"filter": {"mine": {"zyda1.digits": [None, 0.1]}}}
    recipe = raw.load(
        documents=[own_rule, gopher], keep_text=True
    )  # otherwise later rules skip removed documents
    build_here(recipe)
    digits = [row for row in removed(recipe).values() if row["value"] > 0.2 and "digits" in row["reason"]]
    assert [(row["reason"], row["also"]) for row in digits] == [("mine.zyda1.digits", ["zyda1.digits"])] * 2
    recipe = raw.load(documents=[gopher, own_rule], keep_text=True)
    build_here(recipe)
    digits = [row for row in removed(recipe).values() if row["reason"] == "zyda1.digits"]
    assert [row["also"] for row in digits] == [["mine.zyda1.digits"]] * 2


def test_document_emptied_by_cleaning_is_removed_as_emptied(raw):
    raw.recipe["sources"][2]["documents"] = [{"clean": {"runs": {"\n": 1}}}, {"clean": {"unicode": True}}]
    recipe = raw.load(documents=[{"clean": "refinedweb-lines"}])
    write_rows(raw.folder / "in/best-6.parquet", rows(menu="HOME\nABOUT\nLOGIN", empty=""))
    build_here(recipe)
    assert "empty" in kept_names(recipe)  # its text was empty before cleaning
    (row,) = [row for row in removed(recipe).values() if row["reason"] == "refinedweb-lines.emptied"]
    assert row["source"] == "best"


def spy_on_reads(monkeypatch):
    """Return a list that collects the columns which the rules read. Ingesting a file raises AssertionError."""
    columns_read, rules = [], importlib.import_module("zyda_flows.tasks.documents.rules")

    def note(folder, shard, columns=None):
        columns_read.append(tuple(columns))
        return read_table(folder, shard, columns)

    def refuse(*_):
        raise AssertionError("a source is read again")

    monkeypatch.setattr(rules, "read_table", note)
    monkeypatch.setattr(file_pieces, "ingest_piece", refuse)
    return columns_read


def test_changed_rule_values_do_not_read_texts_if_keep_text_is_set(raw, monkeypatch):
    recipe = raw.load(keep_text=True)
    build_here(recipe)
    kept_before = kept_names(recipe)
    columns_read = spy_on_reads(monkeypatch)
    looser = raw.load(
        keep_text=True, documents=[{"clean": "zyda1"}, {"filter": {"zyda1": {"xml": 1000, "length": 5}}}]
    )
    build_here(looser)
    assert set(columns_read) == {("doc_id", "document_steps")}
    assert kept_names(looser) == kept_before | {
        "xml",
        "best_short",
    }  # the other documents break a second rule or are duplicates
    texts = {row["name"]: row["text"] for row in table_of(looser, "best")}
    assert texts["xml"] == XML


def test_keep_text_changes_only_the_column_also(raw):
    recipe = raw.load(name="without")
    build_here(recipe)
    kept = raw.load(name="with", keep_text=True)
    build_here(kept)
    for name in ("best", "middle", "worst", "clusters"):
        assert table_of(recipe, name) == table_of(kept, name)
    removed_with, removed_without = removed(kept), removed(recipe)
    assert {i: row | {"also": 0} for i, row in removed_with.items()} == {
        i: row | {"also": 0} for i, row in removed_without.items()
    }
    assert all(set(removed_without[i]["also"]) <= set(removed_with[i]["also"]) for i in removed_without)


def test_changed_rule_values_ingest_again_if_keep_text_is_not_set(raw):
    recipe = raw.load()
    build_here(recipe)
    looser = raw.load(documents=[{"clean": "zyda1"}, {"filter": {"zyda1": {"xml": 1000}}}])
    build_here(looser)
    assert {"xml"} <= kept_names(looser)
    restored = raw.load()
    build_here(restored)
    assert "xml" not in kept_names(restored)


def test_source_without_steps_has_the_same_shards_as_in_a_recipe_without_steps(raw):
    raw.recipe["sources"][2]["documents"] = []
    recipe = raw.load()
    ledger = build_here(recipe)
    assert not ledger.removed("rules", "worst").documents
    plain = raw.load(name="plain", documents=[])
    raw.recipe["sources"][2].pop("documents")
    build_here(plain)
    ingested = [
        {path.partition("/worst/")[2] for path in built.folder.files("work/ingest/worst")}
        for built in (recipe, plain)
    ]
    assert ingested[0] == ingested[1]


def test_recipe_without_steps_has_no_rules_stage(corpus):
    recipe = corpus.load()
    ledger = build_here(recipe)
    assert "rules" not in ledger.stages
    assert "rules" not in pipeline.reasons(recipe)


def test_measured_statistics_are_published_columns(raw):
    recipe = raw.load(documents=[{"measure": "zyda1"}, {"filter": {"zyda1": {"xml": 1000}}}])
    build_here(recipe)
    for source in recipe.sources:
        for row in table_of(recipe, source.name):
            assert row["zyda1_length"] == len(row["text"])
            assert row["zyda1_xml"] == row["text"].count("xml")
            assert "document_steps" not in row
    assert "zyda1_length" not in table_of(recipe, "removed")[0]


def test_source_column_with_the_name_of_a_statistic_is_renamed(raw, write_steps):
    write_steps("def commas(texts): return pc.count_substring(texts, ',')")
    write_rows(
        raw.folder / "in/best-6.parquet",
        [
            {
                "name": "x",
                "text": prose("x"),
                "zyda1_length": 3,
                "source_zyda1_length": 4,
                "commas": "5",
                "code_x": 6,
            }
        ],
    )
    recipe = raw.load(documents=[{"measure": "zyda1"}, {"measure": "steps_of_mine:commas"}])
    build_here(recipe)
    (row,) = [row for row in table_of(recipe, "best") if row["name"] == "x"]
    assert (row["zyda1_length"], row["commas"]) == (len(row["text"]), row["text"].count(","))
    assert (row["source_zyda1_length"], row["source_source_zyda1_length"]) == (3, 4)
    assert (row["source_commas"], row["code_x"]) == ("5", 6)


def test_columns_of_the_source_keep_their_names(raw):
    write_rows(
        raw.folder / "in/best-6.parquet", [{"name": "x", "text": prose("x"), "document_steps": 3, "value": 1}]
    )
    recipe = raw.load()
    build_here(recipe)
    (row,) = [row for row in table_of(recipe, "best") if row["name"] == "x"]
    assert (row["source_document_steps"], row["value"]) == (3, 1)


# Custom functions


@pytest.fixture
def write_steps(tmp_path, monkeypatch):
    """Return a function that writes a module of custom steps; the module is allowed by ZYDA_STEPS."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ZYDA_STEPS", "other_steps, steps_of_mine")

    def write(code):
        (tmp_path / "steps_of_mine.py").write_text(
            f"import pyarrow as pa\nimport pyarrow.compute as pc\n{code}"
        )
        sys.modules.pop("steps_of_mine", None)
        importlib.invalidate_caches()
        importlib.import_module("zyda_flows.tasks.documents.functions").import_function.cache_clear()

    yield write
    sys.modules.pop("steps_of_mine", None)


CODE = """
def lower(texts):
    return pc.utf8_lower(texts)

def shouting(texts):
    return pc.if_else(pc.match_substring(texts, "BUY"), "it shouts", pa.scalar(None, pa.string()))

def commas(texts):
    return pc.count_substring(texts, ",")
"""


def test_custom_functions_clean_filter_and_measure(raw, write_steps):
    write_steps(CODE)
    write_rows(
        raw.folder / "in/best-6.parquet", rows(loud="BUY now, and here, " + prose("loud"), Quiet="A, b")
    )
    steps = [
        {"filter": "steps_of_mine:shouting"}, {"clean": "steps_of_mine:lower"}, {"measure": "steps_of_mine:commas"},
    ]  # fmt: skip
    recipe = raw.load(documents=steps)
    ledger = build_here(recipe)
    (row,) = removed(recipe).values()
    assert (row["reason"], row["note"], row["value"]) == ("steps_of_mine:shouting", "it shouts", None)
    assert "the function of this name removed it" in decision(explain(recipe, str(row["doc_id"])))
    quiet = next(row for row in table_of(recipe, "best") if row["name"] == "Quiet")
    assert (quiet["text"], quiet["commas"]) == ("a, b", 1)
    assert sum(row["documents"] for row in ledger.cleaned().to_pylist()) > 0


def test_changed_function_is_run_again(raw, write_steps):
    write_steps(CODE)
    recipe = raw.load(documents=[{"filter": "steps_of_mine:shouting"}])
    write_rows(raw.folder / "in/best-6.parquet", rows(loud="BUY now", sold="SELL now"))
    build_here(recipe)
    assert "sold" in kept_names(recipe)
    write_steps(CODE.replace("BUY", "SELL"))
    build_here(recipe)
    assert "sold" not in kept_names(recipe)
    assert "loud" in kept_names(recipe)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("def bad(texts): return pa.array(['x'])", r"steps_of_mine:bad returned 1 values for \d+ documents"),
        ("def bad(texts): return 3", "steps_of_mine:bad: an array of string is expected"),
        ("def bad(texts): raise KeyError('no')", "steps_of_mine:bad failed: KeyError: 'no'"),
        ("def bad(texts): raise SystemExit(3)", "steps_of_mine:bad failed: SystemExit: 3"),
        ("def bad(texts): return None", "steps_of_mine:bad: an array of string is expected"),
        ("def bad(texts): return pc.equal(texts, '')", "an array of string is expected: got bool"),
        ("def bad(texts): return pc.utf8_length(texts)", "an array of string is expected: got int64"),
        ("def bad(texts): return pa.array([''] * len(texts))", "returned an empty text as a reason"),
    ],
)
def test_filter_function_with_an_invalid_result_raises(raw, write_steps, function, message):
    write_steps(function)
    with pytest.raises(BadInput, match=message):
        build_here(raw.load(documents=[{"filter": "steps_of_mine:bad"}]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("def bad(texts): return pa.nulls(len(texts), pa.string())", "returned no text for a document"),
        (
            "def bad(texts): return pa.array([1] * len(texts))",
            "an array of large_string is expected: got int64",
        ),
        (
            "def bad(texts): return pa.array([b'\\xff'] * len(texts)).view(pa.string())",
            "an array of large_string is expected: Invalid UTF8",
        ),
    ],
)
def test_cleaning_function_with_an_invalid_result_raises(raw, write_steps, function, message):
    write_steps(function)
    with pytest.raises(BadInput, match=f"steps_of_mine:bad.*{message}"):
        build_here(raw.load(documents=[{"clean": "steps_of_mine:bad"}]))


@pytest.mark.parametrize(
    ("code", "step", "message"),
    [
        ("import sys; sys.exit(3)", "steps_of_mine:any", "steps_of_mine:any cannot be imported: 3"),
        ("", "steps_of_mine:gone", "steps_of_mine:gone cannot be imported: .*gone"),
        ("number = 3", "steps_of_mine:number", "steps_of_mine:number is not a function"),
        ("1/0", "steps_of_mine:any", "steps_of_mine:any cannot be imported: division by zero"),
        ("", "os:getcwd", "os:getcwd is code, which a recipe may run only if it is allowed"),
        ("", "steps_of_mine.deeper:any", "steps_of_mine.deeper:any is code"),
    ],
)
def test_function_that_is_not_allowed_or_not_importable_raises_when_planned(
    raw, write_steps, code, step, message
):
    write_steps(code)
    with pytest.raises(BadRecipe, match=rf"recipe\.yaml:\d+: documents\[0\]: {message}"):
        build_here(raw.load(documents=[{"filter": step}]))


@pytest.mark.slow
def test_recipe_cannot_run_code_that_is_not_allowed(raw, tmp_path):
    completed = zyda("build", raw.write(documents=[{"filter": "os:abort"}]))
    assert completed.returncode == 1
    assert (
        "os:abort is code, which a recipe may run only if it is allowed: set ZYDA_STEPS=os"
        in completed.stderr
    )


@pytest.mark.parametrize(
    ("environment", "fault"),
    [
        ({"ZYDA_STEPS": ""}, "ZYDA_STEPS=steps_of_elsewhere is not in its environment"),
        ({"ZYDA_STEPS": "steps_of_elsewhere"}, "No module named 'steps_of_elsewhere'"),
    ],
)
def test_worker_without_a_function_raises_with_the_remedy(monkeypatch, environment, fault):
    """The planning process has the function; the workers of `zyda up` do not."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadRecipe) as error:
        load_function("steps_of_elsewhere:any", code="planned")
    message = str(error.value)
    assert fault in message
    assert "`zyda down`, then `zyda up` with ZYDA_STEPS=steps_of_elsewhere" in message
    assert "steps_of_elsewhere.py in PYTHONPATH" in message
    assert "\n" not in message


def test_steps_accept_zero_documents():
    result = run_steps(DocumentPlan(), pa.array([], pa.large_string()))
    assert len(result.text) == 0


# `zyda try`


def test_try_shows_the_removals_of_each_rule_and_writes_no_file(raw):
    completed = zyda_here("try", raw.write(), "--documents", "1000", "--examples", "1")
    assert completed.returncode == 0, completed.stderr
    assert re.search(r"\d+ documents of 3 sources, .* MB; \d+ stay", completed.stdout)
    assert re.search(r"zyda1\.digits +│ +2 ", completed.stdout)
    assert "zyda1.xml: at most 10 is kept" in completed.stdout
    assert not (raw.folder / "out").exists()
    kept = int(re.search(r"([\d,]+) stay", completed.stdout)[1].replace(",", ""))
    assert kept == build_here(raw.load()).of("rules").documents


@pytest.mark.parametrize("ending", ["jsonl.gz", "parquet", "arrow"])
def test_try_skips_unreadable_files(corpus, ending):
    for name in ("best-8", "best-9"):
        (corpus.folder / f"in/{name}.{ending}").write_bytes(gzip.compress(b"broken")[:-9])
    best = {**corpus.recipe["sources"][0], "files": "in/best-*"}
    recipe = corpus.load(sources=[best], on_bad_rows="set_aside", documents=[{"measure": "code"}])
    trial = try_steps(recipe, 1000, 1)
    assert trial.documents == {"best": trial.remaining}
    assert trial.remaining > 0


def test_try_without_steps_fails_with_a_message(corpus):
    completed = zyda_here("try", corpus.write())
    assert completed.returncode == 1
    assert completed.stderr == (
        "zyda: the recipe has no steps on documents to try; give it some: documents: [{filter: gopher-quality}]\n"
    )


def test_shard_size_does_not_change_the_corpus(raw):
    recipe = raw.load(name="large")
    build_here(recipe)
    small = raw.load(name="small", shard_mib=0.002)
    build_here(small)
    assert contents(recipe).keys() != contents(small).keys()
    assert removed(recipe) == removed(small)
    assert kept_names(recipe) == kept_names(small)


@pytest.mark.slow
def test_report_shows_the_removals_by_rules(raw):
    recipe = raw.load()
    build_here(recipe)
    page = Path(write_report(recipe)).read_text(encoding="utf-8")
    assert "Removals by rules" in page
    assert "zyda1.digits" in page
    findings = findings_of(recipe).rules
    assert {rule.rule: sum(rule.documents.values()) for rule in findings} == {
        reason: counts.documents for reason, counts in build_here(recipe).removed_by("rules").items()
    }
    assert findings[0].rule == "zyda1.length"
    also = sum(1 for row in removed(recipe).values() if row["also"])
    assert sum(rule.also for rule in findings) == also > 0
    card = recipe.folder.read("published/README.md").decode()
    assert "| `zyda1.digits`: too many of its characters are digits | 2 (" in card
    assert "- `zyda1` changed 1 document of `best`" in card


def test_changed_values_lists_and_functions_make_a_complete_build_incomplete(raw, write_steps):
    write_steps(CODE)
    (raw.folder / "terms.txt").write_text("moss\n")

    def recipe(**values):
        lists = {"filter": {"zyda1": {"lists": {"sexual": "terms.txt"}, **values}}}
        return raw.load(documents=[lists, {"measure": "steps_of_mine:commas"}])

    build_here(recipe())
    assert ledger_if_complete(recipe())
    assert not ledger_if_complete(recipe(xml=3))
    (raw.folder / "terms.txt").write_text("moss\nfern\n")
    assert not ledger_if_complete(recipe())
    (raw.folder / "terms.txt").write_text("moss\n")
    assert ledger_if_complete(recipe())
    write_steps(CODE + "# another\n")
    assert not ledger_if_complete(recipe())


def test_source_whose_documents_are_all_removed_is_published_empty(raw):
    recipe = raw.load(documents=[{"filter": {"zyda1": {"length": 10**9}}}])
    ledger = build_here(recipe)
    assert ledger.of("publish").documents == 0
    assert ledger.of("ingest").documents == ledger.removed("rules").documents == len(removed(recipe))
    assert kept_names(recipe) == set()


CLEANINGS = [
    {"clean": "zyda1"}, {"clean": "unicode"}, {"clean": {"newlines": True, "control_characters": True}},
    {"clean": "refinedweb-lines"}, {"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}},
    {"clean": {"runs": {"a": 1, " ": 1}}}, {"clean": "c4-lines"},
    {"clean": {"pii": {"mail": True, "ip": "", "phone": True, "card": "x", "iban": True}}},
]  # fmt: skip
FILTERS = [
    {"filter": {"zyda1": {"length": 30}}}, {"filter": {"gopher-quality": {"words": [2, 200], "stop_words": 0}}},
    {"filter": {"gopher-repetition": {"top_2_grams": 0.9}, "code": {}}}, {"filter": {"c4": {"sentences": 1}}},
    {"filter": {"fineweb": {"line_punctuation": None, "new_lines": 0.01}}}, {"filter": "refinedweb-lines"},
    {"filter": {"mine": {"zyda1.symbols": [0.001, 0.2], "code.alphanumeric": [None, 0.99]}}},
    {"filter": {"c4": {"terminal_punctuation": False, "sentences": [0, 3]}}}, {"filter": {"pii": {"mail": [None, 2]}}},
]  # fmt: skip
HOSTILE = rows(
    ruled="=" * 500, many_lines="\r\n\x0b\x85\u2028" * 300, nulls="\0\0 \0", mojibake="schÃ¶n â€œ quoted â€\x9d &amp;",
    right="שלום עולם " * 30, marks="e\u0301" * 99, emoji="👩‍👩‍👧" * 40, one_word="x" * 100_000, mails="a@b.co 8.8.8.8 " * 9, braces="{a} lorem ipsum. " * 9,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_steps_conserve_documents_for_any_shard_size_and_keep_text(raw, seed):
    chance = np.random.default_rng(seed)
    steps = [*CLEANINGS, *FILTERS, {"measure": "fineweb"}]
    chosen = [steps[i] for i in chance.permutation(len(steps))[: chance.integers(2, 7)]]
    write_rows(raw.folder / "in/worst-7.arrow", HOSTILE)
    plain = raw.load(name="plain", documents=chosen)
    kept = raw.load(name="kept", documents=chosen, keep_text=True)
    small = raw.load(name="small-shards", documents=chosen, shard_mib=0.003)
    ledger, kept_ledger, small_ledger = map(build_here, (plain, kept, small))
    assert (small_ledger.table(), small_ledger.reasons(), small_ledger.cleaned()) == (
        ledger.table(), ledger.reasons(), ledger.cleaned()
    )  # fmt: skip
    # With keep_text, the steps after the removing rule also clean a text, so the counts after cleaning differ.
    counts = ["stage", "source", "reason", "documents"]
    assert kept_ledger.reasons().select(counts) == ledger.reasons().select(counts)
    assert kept_ledger.lines[-3:] == ledger.lines[-3:]
    for other in (kept, small):
        for place in ("best", "middle", "worst", "clusters"):
            assert table_of(other, place) == table_of(plain, place)
        reasons = (
            {i: (row["reason"], row["value"]) for i, row in removed(built).items()}
            for built in (other, plain)
        )
        assert next(reasons) == next(reasons)


def test_steps_with_the_same_name_list_the_reasons_of_all(raw):
    steps = [
        {"filter": {"code": {"alphanumeric": None}}},
        {"measure": "code"},
        {"filter": {"code": {"max_line_length": None}}},
    ]
    reasons = pipeline.reasons(raw.load(documents=steps))["rules"]
    assert list(reasons) == [f"code.{name}" for name in RULE_SETS["code"].rules]


def test_running_worker_loads_the_changed_function(raw, write_steps, tmp_path):
    write_steps(CODE)
    recipe = raw.load(documents=[{"filter": "steps_of_mine:shouting"}])
    write_rows(raw.folder / "in/best-6.parquet", rows(loud="BUY now", sold="SELL now!"))
    build_here(recipe)
    assert "sold" in kept_names(recipe)
    file = tmp_path / "steps_of_mine.py"
    file.write_text(file.read_text().replace('"BUY"', '"SELL now!"'))  # the previous module is still loaded
    build_here(recipe)
    assert "sold" not in kept_names(recipe)


def test_function_that_differs_on_a_worker_raises(raw, write_steps, tmp_path):
    write_steps(CODE)
    plan = plan_documents(raw.load(documents=[{"filter": "steps_of_mine:shouting"}]), "best")
    write_steps(CODE + "# another")
    with pytest.raises(BadRecipe, match="steps_of_mine:shouting has changed since the build was planned"):
        run_steps(plan, pa.array(["BUY"], pa.large_string()))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{"documents": [{"measure": "fineweb"}]},
                                   {"documents": [{"filter": "fineweb"}], "keep_text": True},
                                   {"documents": [{"filter": "fineweb"}]}])  # fmt: skip
def test_rule_added_to_a_set_ingests_again(corpus, monkeypatch, steps):
    rules = RULE_SETS["fineweb"].rules
    with monkeypatch.context() as patch:
        patch.delitem(rules, "new_lines")
        build_here(corpus.load(**steps))
        key_before = ingest_key(corpus.load(**steps))
    recipe = corpus.load(**steps)
    assert ingest_key(recipe) != key_before
    build_here(recipe)
    assert ingest_key(recipe) == ingest_key(corpus.load(**steps))


def ingest_key(recipe):
    plan = prepare.fn(recipe)[0]
    return ingesting.key(recipe, plan)


def test_gopher_repetition_removes_empty_texts_like_datatrove(corpus):
    recipe = corpus.load(documents=[{"filter": {"gopher-repetition": {}}}])
    build_here(recipe)
    reasons = [row["reason"] for row in removed(recipe).values()]
    assert reasons.count("gopher-repetition.empty") == 2
    assert not {"best_empty", "worst_empty"} & kept_names(recipe)
