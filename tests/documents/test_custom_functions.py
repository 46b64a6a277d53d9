"""Test custom functions that clean, filter and measure documents."""

import importlib
import sys

import pyarrow as pa
import pytest
from raw_corpus import removed
from small_corpus import build_here, kept_names, prose, rows, table_of, write_rows, zyda

from zyda_flows.flows.command.explain import decision
from zyda_flows.tasks.documents.functions import load_function
from zyda_flows.tasks.documents.planning import plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.planning.last_build import ledger_if_complete


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
