"""Test that invalid recipes, inputs and options end with exit status 1 and error lines, without a traceback."""

import contextlib
import gzip
import json
import os
import re
import shutil
import string

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_corpus import QUALITY, TOKENIZER, build_here, rows, write_rows

from zyda_flows.flows.command import build
from zyda_flows.flows.command.cli import main
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.loading import load_recipe

pytestmark = pytest.mark.early(8)


@pytest.fixture(scope="module", autouse=True)
def log_of_prefect():
    """Set up Prefect's log before output is captured, so that it is not written to a captured stream."""
    from prefect.logging.configuration import setup_logging

    setup_logging()


@pytest.fixture
def zyda(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in this process and returns its exit status and error lines.

    The settings contain no address of a Prefect server.
    """
    from prefect.settings import PREFECT_API_URL, temporary_settings

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "huggingface_hub.constants.HF_HUB_OFFLINE", True
    )  # otherwise requests to the hub are repeated
    monkeypatch.setattr(
        build, "run_build", lambda recipe, storage, sample, plan, replace: build_here(plan, replace=replace)
    )

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["zyda", *arguments])
        try:
            status = main()
        except SystemExit as error:
            status = error.code
        errors = capsys.readouterr().err
        return status or 0, [line for line in errors.splitlines() if " | WARNING | " not in line]

    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        yield call


def valid_recipe(folder, **changes):
    write_rows(folder / "in/a.parquet", rows(one="some text", two="more text"))
    source = {"name": "a", "files": "in/a.parquet"}
    return {"name": "swept", "storage": "out", "tokenizer": str(TOKENIZER), "sources": [source], **changes}


def assert_fails(status, lines, message, count=1):
    assert status == 1, lines
    assert len(lines) == count, lines
    for line in lines:
        assert line.startswith("zyda: "), line
        assert "Traceback" not in line
        assert len(line) < 2100, line
    assert re.search(message, "\n".join(lines)), lines


def with_source(**changes):
    return {"sources": [{"name": "a", "files": "in/a.parquet", **changes}]}


RECIPES = {  # changes of a valid recipe, and the expected message
    "no name": ({"name": None}, r"recipe\.yaml:\d+: name: "),
    "name with a slash": ({"name": "../x"}, "name: expected letters, digits"),
    "name of a sample": ({"name": "x-sample-0.1"}, "name: .*sample"),
    "name is a number": ({"name": 3}, "name: "),
    "name is empty": ({"name": ""}, "name: "),
    "name is a list": ({"name": ["a"]}, "name: "),
    "name too long": ({"name": "n" * 101}, "name: "),
    "storage is empty": ({"storage": ""}, "storage: "),
    "storage is blank": ({"storage": "  "}, "storage: "),
    "storage has no place": ({"storage": "s3://"}, "storage: .*with a place in it"),
    "storage has no place either": ({"storage": "file://"}, "storage: .*with a place in it"),
    "storage of an unknown kind": ({"storage": "nosuch://x"}, "nosuch:// is not a supported kind of URL"),
    "storage with a password": ({"storage": "s3://me:hunter2@bucket/x"}, "no credentials"),
    "storage with a password in capitals": ({"storage": "S3://me:hunter2@bucket/x"}, "no credentials"),
    "storage with a null": ({"storage": "a\0b"}, "null character"),
    "storage of nobody": ({"storage": "~nobody-here/x"}, "storage: there is no such user"),
    "storage of a kind that wraps others": ({"storage": "dir://x"}, "storage: .*of which files can be read"),
    "files of a kind that wraps others": (with_source(files="generic://x"), "of which files can be read"),
    "model of a long name": (with_source(classify={"model": "m" * 5000, "keep": ["a"]}), "classify.model"),
    "tokenizer of a long name": ({"tokenizer": "t" * 5000}, "tokenizer: "),
    "storage is a number": ({"storage": 1}, "storage: "),
    "tokenizer is missing": ({"tokenizer": "missing.json"}, "tokenizer: .*cannot be loaded"),
    "tokenizer is a folder": ({"tokenizer": "in"}, "tokenizer"),
    "tokenizer is no tokenizer": ({"tokenizer": "in/a.json"}, "tokenizer: .*cannot be loaded"),
    "tokenizer is not on the hub": ({"tokenizer": "no/such"}, "tokenizer: no/such cannot be loaded"),
    "tokenizer is empty": ({"tokenizer": ""}, "tokenizer: "),
    "tokenizer with a password": ({"tokenizer": "https://u:hunter2@h/t.json"}, "no credentials"),
    "bands do not divide": ({"dedup": {"bands": 7}}, r"dedup: values \(128\) must be bands x rows"),
    "bands are true": ({"dedup": {"bands": True}}, "dedup.bands: a number"),
    "bands are a text": ({"dedup": {"bands": "eight"}}, r"dedup\.bands: "),
    "no bands": ({"dedup": {"bands": 0}}, r"dedup\.bands: "),
    "values of another number": ({"dedup": {"values": 100}}, r"dedup: values \(100\) must be"),
    "width below zero": ({"dedup": {"width": -1}}, r"dedup\.width: "),
    "shingles of another kind": ({"dedup": {"shingle": "bytes"}}, r"dedup\.shingle: "),
    "scope of another kind": ({"dedup": {"scope": "all"}}, r"dedup\.scope: "),
    "dedup is a list of numbers": ({"dedup": [1]}, r"dedup\[0\]: "),
    "dedup is empty": ({"dedup": None}, "dedup: "),
    "field that is none": ({"colour": "red"}, "colour: unknown field"),
    "field of another name": (with_source(txt="body"), r"sources\[0\]\.txt: unknown field; did you mean text\?"),
    "field of a source": ({"keep": "a > 1"}, "keep: unknown field; it belongs to each of the sources"),
    "field of the recipe": (with_source(tokenizer="x"), "unknown field; it belongs to the recipe, outside `sources`"),
    "sample is true": ({"sample": True}, "sample: a number"),
    "sample of nothing": ({"sample": 0}, "sample: "),
    "sample of more than all": ({"sample": 2}, "sample: "),
    "sample is no number": ({"sample": float("nan")}, "sample: "),
    "shards without end": ({"shard_mib": float("inf")}, "shard_mib: "),
    "shards of nothing": ({"shard_mib": 0}, "shard_mib: "),
    "bad rows otherwise": ({"on_bad_rows": "ignore"}, "on_bad_rows: "),
    "no source": ({"sources": []}, "sources: "),
    "sources are a text": ({"sources": "a"}, "sources: "),
    "sources are a mapping": ({"sources": {"a": {}}}, "sources: expected a list, whose entries begin with a dash"),
    "source is a text": ({"sources": ["a"]}, r"sources\[0\]: "),
    "licence is a list": ({"license": ["mit"]}, "license: "),
    "source without files": ({"sources": [{"name": "a"}]}, r"sources\[0\]: files: a source has files; give files, "),
    "source of no files": (with_source(files=[]), r"sources\[0\]: files: a source has files"),
    "source of an empty name": (with_source(files=""), r"sources\[0\]\.files"),
    "source of numbers": (with_source(files=[1]), r"sources\[0\]\.files"),
    "source called as a file of ours": (with_source(name="manifest.json"), "manifest.json is in every published"),
    "source called as our card": (with_source(name="readme.md"), "is in every published"),
    "two sources of one name": (
        {"sources": [{"name": "a", "files": "in/a.parquet"}, {"name": "A", "files": "in/a.parquet"}]},
        "two sources have the name",
    ),
    "text of no name": (with_source(text=""), r"sources\[0\]\.text"),
    "text is not there": (with_source(text="body"), "no column 'body'"),
    "text is of another type": (with_source(text="stars"), "column 'stars' is int64, expected string"),
    "files that are not there": (with_source(files="in/x*"), r"source a: no file matches .*in/x"),
    "folder that is not there": (with_source(files="/nowhere/*.parquet"), "no file matches"),
    "folder and no file": (with_source(files="in"), r"source a: no file matches \S+in, which is a folder: write \S+in/\*\*"),
    "pattern that is none": (with_source(files="in/**.parquet"), "source a|no file"),
    "ending that is none": (with_source(files="in/a.csv"), "no file matches|the ending is none of"),
    "unknown kind of URL": (with_source(files="nosuch://a/b.parquet"), "nosuch:// is not a supported kind of URL"),
    "kind in capitals": (with_source(files="HTTP://127.0.0.1:9/b.parquet"), "127.0.0.1:9"),
    "signed URL": (with_source(files="https://h/a.parquet?X-Amz-Signature=abc"), "no credentials"),
    "URL signed otherwise": (with_source(files="https://h/a.parquet?sv=1&SIG=abc"), "no credentials"),
    "password behind another kind": (with_source(files="simplecache::https://u:hunter2@h/a.parquet"), "no credentials"),
    "nobody answers": (with_source(files="http://127.0.0.1:9/a.parquet"), "127.0.0.1:9"),
    "classify nothing": (with_source(classify={}), r"classify\.model: this field is required"),
    "classify by what is not there": (with_source(classify={"model": "no/such", "keep": ["a"]}), "no/such cannot be loaded"),
    "classify by a folder of something else": (with_source(classify={"model": "in", "keep": ["a"]}), r"classify\.model: .*in"),
    "label that is none": (with_source(classify={"model": str(QUALITY), "keep": ["Good"]}), "has no label Good"),
    "tokens below zero": (with_source(classify={"model": str(QUALITY), "max_tokens": -1}), "max_tokens: "),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", RECIPES)
def test_invalid_recipe_fails_with_one_line(zyda, tmp_path, case):
    changes, message = RECIPES[case]
    recipe = valid_recipe(tmp_path, **changes)
    (tmp_path / "in/a.json").write_text('{"a": 1}')
    (tmp_path / "recipe.yaml").write_text(
        yaml.safe_dump({k: v for k, v in recipe.items() if v is not None or k == "dedup"})
    )
    for command in ("check", "build"):
        status, lines = zyda(command, "recipe.yaml")
        assert_fails(status, lines, message)
        assert "hunter2" not in str(lines)
    assert not list(tmp_path.glob("out/**/*.parquet"))


TEXTS = {
    "nothing": (b"", "a recipe is a mapping"),
    "a list": (b"- a\n", "a recipe is a mapping"),
    "not valid YAML": (b"a: [", "not valid YAML"),
    "not text": (b"\xff\xfe\x00", "cannot be read"),
    "a control character": (b"name: a\x01b\n", "not valid YAML|cannot be read"),
    "an object of Python": (b"!!python/object/apply:os.system ['true']\n", "not valid YAML"),
    "a key twice": (b"name: a\nname: b\n", r"recipe\.yaml:2: .*'name' is given twice"),
    "a key that is a list": (b"[a]: b\n", "recipe"),
    "keys that are numbers": (b"1: b\n", "recipe"),
    "deep": (b"a: " + b"[" * 3000 + b"]" * 3000, "recipe"),
    "two documents": (b"a: 1\n---\nb: 2\n", "not valid YAML"),
    "an unknown anchor": (b"a: *b\n", "not valid YAML"),
    "a tab": (b"a:\n\t- b\n", "not valid YAML.*; use spaces instead of tabs"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_file_that_is_not_a_recipe_fails(zyda, tmp_path, case):
    content, message = TEXTS[case]
    (tmp_path / "recipe.yaml").write_bytes(content)
    status, lines = zyda("check", "recipe.yaml")
    assert (status, all(line.startswith("zyda: ") for line in lines)) == (1, True), lines
    assert re.search(message, lines[0]), lines


@pytest.mark.parametrize("path", ["missing.yaml", ".", "/dev/null/x", "a\0b", "", "x" * 5000])
def test_missing_recipe_fails(zyda, path):
    assert_fails(*zyda("check", path), "recipe|cannot be read")


def lines_file(*lines):
    return (
        b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines) + b"\n"
    )


def parquet(table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def arrow(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def nested(depth):
    return b'{"text": "a", "deep": ' + b"[" * depth + b"]" * depth + b"}"


GOOD = parquet(pa.table({"text": ["a text", "another"] * 50, "n": range(100)}))
INPUTS = {  # name and content of a file, and the expected message
    "empty Parquet": ("x.parquet", b"", "each of its files has 0 bytes"),
    "not Parquet": ("x.parquet", b"text" * 100, "cannot be read"),
    "cut Parquet": ("x.parquet", GOOD[:-30], "cannot be read"),
    "Parquet without its head": ("x.parquet", GOOD[50:], r"x\.parquet"),
    "Parquet with a broken page": ("x.parquet", GOOD[:60] + bytes(90) + GOOD[150:], r"x\.parquet"),
    "Parquet without rows": ("x.parquet", parquet(pa.table({"text": pa.array([], pa.string())})), "no document"),
    "Parquet without columns": ("x.parquet", parquet(pa.table({})), "no column 'text'"),
    "null text": ("x.parquet", parquet(pa.table({"text": [None, "a"]})), r"row 0: .*null"),
    "two columns of one name": (
        "x.parquet", parquet(pa.table([["a"], ["b"], ["c"]], names=["text", "n", "n"])), r"x\.parquet.*'n'",
    ),
    "two texts": ("x.parquet", parquet(pa.table([["a"], ["b"]], names=["text", "text"])), r"x\.parquet.*'text'"),
    "text is a list": ("x.parquet", parquet(pa.table({"text": [["a"]]})), "expected string"),
    "text is binary": ("x.parquet", parquet(pa.table({"text": [b"a"]})), "expected string"),
    "not Arrow": ("x.arrow", b"ARROW1 but not", "cannot be read"),
    "empty Arrow": ("x.arrow", b"", "each of its files has 0 bytes"),
    "cut Arrow": ("x.arrow", arrow(pa.table({"text": ["a"] * 1000}))[:-600], r"x\.arrow"),
    "JSON that is none": ("x.jsonl", lines_file({"text": "a"}, b"{"), r"row 1 \(line 2\).*JSON"),
    "JSON of a number": ("x.jsonl", lines_file(b"3"), "expected an object|no document|row 0"),
    "JSON without text": ("x.jsonl", lines_file({"body": "a"}), "no column 'text'|no field 'text'"),
    "text is a number": ("x.jsonl", lines_file({"text": 3}), r"row 0.*expected a? ?string"),
    "text is null": ("x.jsonl", lines_file({"text": None}), "row 0"),
    "not UTF-8": ("x.jsonl", b'{"text": "\xff"}\n', r"row 0.*UTF-8"),
    "UTF-16": ("x.jsonl", '{"text": "a"}\n'.encode("utf-16"), "row 0"),
    "one array": ("x.json", json.dumps([{"text": "a"}, {"text": "b"}]).encode(), r"x\.json"),
    "one object over many lines": ("x.json", json.dumps({"text": "a"}, indent=1).encode(), r"x\.json"),
    "no line": ("x.jsonl", b"", "each of its files has 0 bytes"),
    "blank lines": ("x.jsonl", b"\n\n\n", "no document"),
    "nested too deep": ("x.jsonl", lines_file(nested(5000)), "row 0"),
    "not gzip at all": ("x.jsonl.gz", b"hello" * 99, r"x\.jsonl\.gz"),
    "not gzip": ("x.jsonl.gz", b'{"text": "a"}\n', r"x\.jsonl\.gz: cannot be read: it begins as JSON Lines without"),
    "empty gzip": ("x.jsonl.gz", b"", r"x\.jsonl\.gz|no document"),
    "cut gzip": ("x.jsonl.gz", gzip.compress(lines_file({"text": "a" * 999}))[:-9], r"x\.jsonl\.gz"),
    "not zstd": ("x.jsonl.zst", b'{"text": "a"}\n', r"x\.jsonl\.zst"),
    "Parquet that is called otherwise": ("x.jsonl", GOOD, r"x\.jsonl: cannot be read: it begins as Parquet does"),
    "gzip that is called otherwise": ("x.jsonl.zst", gzip.compress(b"{}"), "it begins as gzip does"),
    "compressed Parquet": ("x.parquet.gz", gzip.compress(GOOD), "its ending is none of"),
    "Excel": ("x.xls", b"text\na\n", "its ending is none of"),
    "no ending": ("x", b"text", "its ending is none of"),
    "no name but an ending": (".parquet", GOOD[:40], r"\.parquet"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", INPUTS)
def test_unreadable_input_fails_with_one_line(zyda, tmp_path, case):
    name, content, message = INPUTS[case]
    recipe = valid_recipe(tmp_path, sources=[{"name": "odd", "files": f"odd/{name}"}])
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / name).write_bytes(content)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    status, lines = zyda("build", "recipe.yaml")
    assert_fails(status, lines, message)
    assert "source odd" in lines[0]


def test_faults_of_all_sources_are_listed_with_their_lines(zyda, tmp_path):
    sources = [
        {"name": "one", "files": "in/a.parquet", "keep": "nothing = 1"},
        {"name": "two", "files": "in/a.parquet", "text": "body"},
        {"name": "many", "files": "many/*.jsonl"},
        {"name": "none", "files": "nowhere/*.jsonl"},
    ]
    recipe = valid_recipe(tmp_path, sources=sources)
    (tmp_path / "many").mkdir()
    for i in range(9):
        (tmp_path / f"many/{i}.jsonl").write_text('{"a": 1}')
    (tmp_path / "recipe.yaml").write_text(text := yaml.safe_dump(recipe))
    status, lines = zyda("build", "recipe.yaml")
    assert status == 1
    numbers = [
        text[: text.index(excerpt)].count("\n") + 1
        for excerpt in ("nothing = 1", "files: in/a.parquet\n  name: two")
    ]
    assert re.match(r"zyda: recipe\.yaml:\d+: source none: no file matches", lines.pop(0))
    assert lines[0].startswith(f"zyda: recipe.yaml:{numbers[0]}: source one: keep: nothing = 1: ")
    assert lines[1].startswith(f"zyda: recipe.yaml:{numbers[1]}: source two, file ")
    assert [line.partition(": source ")[2][:4] for line in lines] == ["one:", "two,", *["many"] * 4]
    assert lines[-1].endswith("source many: 6 more of its files have faults")


@pytest.mark.parametrize(
    ("keep", "hint"),
    [
        ("n > 1 && x > 0", "; write AND and OR"),
        ("n > 1 || x > 0", "; write AND and OR"),
        ('s = "one"', "; a text stands in single quotes"),
        ("n in (select 1)", "can have no SELECT"),
        ("nothing = '&&' and n == 1", "'b'"),
        ("n", "expected Boolean, as a comparison does (score > 3)"),
    ],
)
def test_expression_of_another_language_fails_with_a_hint(keep, hint):
    from zyda_flows.tasks.quality.keep import fault

    assert fault(keep, TABLE.schema).endswith(hint)


TABLE = pa.table({
    "text": ["a text", "another"], "n": [1, 2], "x": [0.5, None], "s": ["1", "one"], "l": [[1], [2, 3]],
    "d": pa.array([1, 2], pa.decimal256(50, 3)), "t": pa.array([0, 1], pa.timestamp("us")), "o": [{"a": 1}, {"a": 2}],
    "b": [True, None],
})  # fmt: skip
KEEPS = (
    "", " ", "n >", "n", "n + 1", "'a'", "nothing = 1", "n = 'a'", "sum(n) > 1", "avg(n) < n", "n > avg(n)",
    "count(*) > 0", "first(n) = 1", "row_number() over () < 3", "avg(n) over () > 1", "rank() over (order by n) = 1",
    "now() > t", "current_date > t", "random() > 0.5", "n in (select 1)", "exists (select 1)", "select 1", "1; drop table x",
    "cast(s as int) > 1", "unnest(l) > 1", "l > 1", "t > 'x'", "n = 1 /*", "(((n = 1", "n == == 1",
    "n like 3", "s like n", "n between 1", "case when n = 1 then 2 end", "coalesce(s, n) = 1", "read_csv('/etc/passwd')",
    "from x", "*", "n is", "max(n) = n", "lag(n) over (order by n) = 1", "s regexp '('", "s ~ '['", "\0", "\u202e", "n" * 5000,
    "(" * 500 + "n" + ")" * 500,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEEPS, ids=range(len(KEEPS)))
def test_invalid_keep_expression_fails_with_one_line(zyda, tmp_path, keep):
    recipe = valid_recipe(tmp_path, sources=[{"name": "odd", "files": "odd/*.parquet", "keep": keep}])
    for i in range(3):  # the fault is reported once for all files
        (tmp_path / "odd").mkdir(exist_ok=True)
        pq.write_table(TABLE, tmp_path / f"odd/{i}.parquet")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert_fails(*zyda("build", "recipe.yaml"), "source odd|keep|recipe")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(string.ascii_lowercase, max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = (
    "name",
    "storage",
    "tokenizer",
    "dedup",
    "on_bad_rows",
    "shard_mib",
    "sample",
    "sources",
    "license",
    "languages",
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(FIELDS), value=ANY, deeper=st.booleans())
def test_random_field_value_is_valid_or_raises_bad_recipe(tmp_path, field, value, deeper):
    recipe = {"name": "n", "storage": "out", "tokenizer": "t.json", "sources": [{"name": "a", "files": "x"}]}
    if deeper:
        recipe["sources"][0] |= {"text": value, "classify": {"model": value}, "keep": value}
    recipe[field] = value
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    with contextlib.suppress(BadRecipe):
        load_recipe(str(path))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["x.parquet", "x.arrow", "x.jsonl", "x.jsonl.gz"]))
@example(seed=4905, kind="x.arrow")  # a length of many GiB
def test_damaged_input_is_read_or_fails_with_one_line(zyda, tmp_path, seed, kind):
    """Valid files with changed and truncated bytes give no traceback and at most one error line."""
    chance = np.random.default_rng(seed)
    table = pa.table({"text": [f"text {i}" * 5 for i in range(40)], "n": range(40)})
    undamaged = {
        "x.parquet": lambda: parquet(table, write_page_checksum=bool(seed % 2)),
        "x.arrow": lambda: arrow(table),
        "x.jsonl": lambda: lines_file(*table.to_pylist()),
        "x.jsonl.gz": lambda: gzip.compress(lines_file(*table.to_pylist()), mtime=0),
    }[kind]()
    content = bytearray(undamaged)
    for place in chance.integers(0, len(content), chance.integers(1, 4)):
        content[place] = chance.integers(0, 256)
    if chance.random() < 0.3:
        del content[chance.integers(0, len(content)) :]
    folder = tmp_path / f"odd-{seed}-{kind}"
    folder.mkdir(exist_ok=True)
    (folder / kind).write_bytes(bytes(content))
    recipe = valid_recipe(
        tmp_path, name=f"n{seed}{kind}", sources=[{"name": "odd", "files": f"{folder}/{kind}"}]
    )
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    status, lines = zyda("build", "recipe.yaml")
    if status:
        assert_fails(status, lines, "source odd")


def test_invalid_storage_option_fails(zyda, tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(valid_recipe(tmp_path)))
    assert_fails(*zyda("build", "recipe.yaml", "--storage", ""), "storage: ")
    assert_fails(*zyda("build", "recipe.yaml", "--storage", "nosuch://x"), "nosuch")
    assert not (tmp_path / "swept").exists()


def test_names_like_markup_or_patterns_are_used_literally(zyda, tmp_path, capsys):
    recipe = valid_recipe(tmp_path, storage="[old]/x[/x]")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert zyda("build", "recipe.yaml")[0] == 0
    assert (tmp_path / "[old]/x[/x]/swept/published/manifest.json").exists()


def test_replacing_a_corpus_of_other_sources_requires_the_option(zyda, tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(valid_recipe(tmp_path)))
    assert zyda("build", "recipe.yaml")[0] == 0
    write_rows(tmp_path / "in/b.parquet", rows(other="other text"))
    others = "a corpus with other sources is published there: its a would go"
    renewed = "a corpus of other files is published there: of source a, none of the files that it was made of"
    for name, message in (("b", others), ("a", renewed)):
        sources = [{"name": name, "files": "in/b.parquet"}]
        (tmp_path / "second.yaml").write_text(yaml.safe_dump(valid_recipe(tmp_path, sources=sources)))
        assert_fails(*zyda("build", "second.yaml"), message)
        modified = os.stat(tmp_path / "out/swept/published/manifest.json").st_mtime_ns
        assert_fails(*zyda("check", "second.yaml"), message)
        assert os.stat(tmp_path / "out/swept/published/manifest.json").st_mtime_ns == modified
    assert zyda("build", "second.yaml", "--replace")[0] == 0


def test_corpus_of_other_sources_is_not_replaced_if_its_build_record_is_damaged(zyda, tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(valid_recipe(tmp_path)))
    assert zyda("build", "recipe.yaml")[0] == 0
    second = valid_recipe(tmp_path, sources=[{"name": "b", "files": "in/a.parquet"}])
    (tmp_path / "second.yaml").write_text(yaml.safe_dump(second))
    for content in (b"{}", None):
        (tmp_path / "out/swept/work/built.json").unlink()
        if content is not None:
            (tmp_path / "out/swept/work/built.json").write_bytes(content)
        assert_fails(
            *zyda("build", "second.yaml"),
            "a corpus with other sources is published there: its a would go",
        )


def test_source_that_reads_its_published_corpus_fails(zyda, tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(valid_recipe(tmp_path)))
    assert zyda("build", "recipe.yaml")[0] == 0
    sources = [
        *valid_recipe(tmp_path)["sources"],
        {"name": "own", "files": "out/swept/published/a/*.parquet"},
    ]
    (tmp_path / "second.yaml").write_text(yaml.safe_dump(valid_recipe(tmp_path, sources=sources)))
    assert_fails(*zyda("check", "second.yaml"), "source own: it reads the published corpus of this recipe")


def test_file_name_that_is_not_utf8_fails(zyda, tmp_path):
    recipe = valid_recipe(tmp_path, sources=[{"name": "a", "files": "in/*"}])
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    shutil.copy(tmp_path / "in/a.parquet", os.fsencode(tmp_path / "in") + b"/odd-\xff.parquet")
    for command in ("check", "build"):
        assert_fails(*zyda(command, "recipe.yaml"), "source a, file .*odd-.*: its name is not UTF-8")


def test_recipe_in_a_folder_named_like_a_pattern_is_built(zyda, tmp_path, monkeypatch):
    folder = tmp_path / "sp ace [x]"
    recipe = valid_recipe(folder, sources=[{"name": "a", "files": "in/*.parquet"}])
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert zyda("build", str(folder / "recipe.yaml"))[0] == 0


def test_check_reports_faults_of_the_first_rows(zyda, tmp_path):
    (tmp_path / "odd").mkdir()
    for i, line in enumerate((b'{"text": 3}', b"[1, 2]", b'{"text": "\xff"}', b"{")):
        (tmp_path / f"odd/{i}.jsonl").write_bytes(b'{"text": "good"}\n' + line + b"\n")
        recipe = valid_recipe(tmp_path, sources=[{"name": "odd", "files": f"odd/{i}.jsonl"}])
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        assert_fails(*zyda("check", "recipe.yaml"), r"source odd, file .*, row 1 \(line 2\)")
        recipe["on_bad_rows"] = "set_aside"
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        assert zyda("check", "recipe.yaml")[0] == 0


def test_invalid_server_addresses_are_recognised():
    from zyda_flows.flows.server.health import is_healthy
    from zyda_flows.flows.server.login import Api
    from zyda_flows.tasks.errors import LostWorkers
    from zyda_flows.tasks.workers.dask_cluster import check_address

    assert not is_healthy(Api(url="foo"))
    assert not is_healthy(Api(url="http://127.0.0.1:abc/api"))
    check_address("tls://127.0.0.1:8786")
    for address in ("foo", "tcp://x:y"):
        with pytest.raises(LostWorkers, match="is no address"):
            check_address(address)


def test_damaged_stack_file_is_one_line(server, zyda, tmp_path, monkeypatch):
    from zyda_flows.deployments import local, stack

    for module in (local, stack):
        monkeypatch.setattr(module, "home", lambda: tmp_path)
    (tmp_path / "stack.json").write_text('{"parts": {"ser')
    for command in (("down",), ("up", "--env"), ("watch", "--list")):
        assert_fails(*zyda(*command), r"stack\.json is damaged")


def test_unwritable_prefect_home_is_one_line(zyda, tmp_path, monkeypatch):
    from zyda_flows.flows.server import local_server

    (tmp_path / "file").touch()
    monkeypatch.setattr(local_server, "home", lambda: tmp_path / "file/zyda")
    message = r"file/zyda: Not a directory, and Prefect .* set PREFECT_HOME to a folder that can"
    assert_fails(*zyda("up"), message)
    monkeypatch.setattr(local_server, "configured_server", lambda: None)  # the tests configure a server
    with pytest.raises(local_server.NoServer, match=message), local_server.prefect_server():  # for a build
        pass
