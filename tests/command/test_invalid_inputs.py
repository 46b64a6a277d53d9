"""Test that unreadable inputs and invalid expressions end with exit status 1 and error lines, without a traceback."""

import gzip
import json
import os
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from command_here import assert_fails, valid_recipe
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.early(8)


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
    "truncated Parquet": ("x.parquet", GOOD[:-30], "cannot be read"),
    "Parquet without its head": ("x.parquet", GOOD[50:], r"x\.parquet"),
    "Parquet with a broken page": ("x.parquet", GOOD[:60] + bytes(90) + GOOD[150:], r"x\.parquet"),
    "Parquet without rows": ("x.parquet", parquet(pa.table({"text": pa.array([], pa.string())})), "no document"),
    "Parquet without columns": ("x.parquet", parquet(pa.table({})), "no column 'text'"),
    "null text": ("x.parquet", parquet(pa.table({"text": [None, "a"]})), r"row 0: .*null"),
    "two columns with the same name": (
        "x.parquet", parquet(pa.table([["a"], ["b"], ["c"]], names=["text", "n", "n"])), r"x\.parquet.*'n'",
    ),
    "two text columns": ("x.parquet", parquet(pa.table([["a"], ["b"]], names=["text", "text"])), r"x\.parquet.*'text'"),
    "text is a list": ("x.parquet", parquet(pa.table({"text": [["a"]]})), "expected string"),
    "text is binary": ("x.parquet", parquet(pa.table({"text": [b"a"]})), "expected string"),
    "not Arrow": ("x.arrow", b"ARROW1 but not", "cannot be read"),
    "empty Arrow": ("x.arrow", b"", "each of its files has 0 bytes"),
    "truncated Arrow": ("x.arrow", arrow(pa.table({"text": ["a"] * 1000}))[:-600], r"x\.arrow"),
    "invalid JSON": ("x.jsonl", lines_file({"text": "a"}, b"{"), r"row 1 \(line 2\).*JSON"),
    "JSON number": ("x.jsonl", lines_file(b"3"), "expected an object|no document|row 0"),
    "JSON without text": ("x.jsonl", lines_file({"body": "a"}), "no column 'text'|no field 'text'"),
    "text is a number": ("x.jsonl", lines_file({"text": 3}), r"row 0.*expected a? ?string"),
    "text is null": ("x.jsonl", lines_file({"text": None}), "row 0"),
    "not UTF-8": ("x.jsonl", b'{"text": "\xff"}\n', r"row 0.*UTF-8"),
    "UTF-16": ("x.jsonl", '{"text": "a"}\n'.encode("utf-16"), "row 0"),
    "JSON array": ("x.json", json.dumps([{"text": "a"}, {"text": "b"}]).encode(), r"x\.json"),
    "JSON object over many lines": ("x.json", json.dumps({"text": "a"}, indent=1).encode(), r"x\.json"),
    "empty JSON Lines": ("x.jsonl", b"", "each of its files has 0 bytes"),
    "blank lines": ("x.jsonl", b"\n\n\n", "no document"),
    "nested too deep": ("x.jsonl", lines_file(nested(5000)), "row 0"),
    "not gzip at all": ("x.jsonl.gz", b"hello" * 99, r"x\.jsonl\.gz"),
    "not gzip": ("x.jsonl.gz", b'{"text": "a"}\n', r"x\.jsonl\.gz: cannot be read: it begins as JSON Lines without"),
    "empty gzip": ("x.jsonl.gz", b"", r"x\.jsonl\.gz|no document"),
    "truncated gzip": ("x.jsonl.gz", gzip.compress(lines_file({"text": "a" * 999}))[:-9], r"x\.jsonl\.gz"),
    "not zstd": ("x.jsonl.zst", b'{"text": "a"}\n', r"x\.jsonl\.zst"),
    "Parquet with another ending": ("x.jsonl", GOOD, r"x\.jsonl: cannot be read: it begins as Parquet does"),
    "gzip with another ending": ("x.jsonl.zst", gzip.compress(b"{}"), "it begins as gzip does"),
    "compressed Parquet": ("x.parquet.gz", gzip.compress(GOOD), "its ending is none of"),
    "Excel": ("x.xls", b"text\na\n", "its ending is none of"),
    "no ending": ("x", b"text", "its ending is none of"),
    "name is only an ending": (".parquet", GOOD[:40], r"\.parquet"),
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


def test_file_name_that_is_not_utf8_fails(zyda, tmp_path):
    recipe = valid_recipe(tmp_path, sources=[{"name": "a", "files": "in/*"}])
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    shutil.copy(tmp_path / "in/a.parquet", os.fsencode(tmp_path / "in") + b"/odd-\xff.parquet")
    for command in ("check", "build"):
        assert_fails(*zyda(command, "recipe.yaml"), "source a, file .*odd-.*: its name is not UTF-8")


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
