"""Test that invalid recipes and settings end with exit status 1 and error lines, without a traceback."""

import contextlib
import os
import re
import string

import pytest
import yaml
from command_here import assert_fails, valid_recipe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_corpus import QUALITY, rows, write_rows

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.loading import load_recipe

pytestmark = pytest.mark.early(8)


def with_source(**changes):
    return {"sources": [{"name": "a", "files": "in/a.parquet", **changes}]}


RECIPES = {  # changes of a valid recipe, and the expected message
    "no name": ({"name": None}, r"recipe\.yaml:\d+: name: "),
    "name with a slash": ({"name": "../x"}, "name: expected letters, digits"),
    "name like a sample": ({"name": "x-sample-0.1"}, "name: .*sample"),
    "name is a number": ({"name": 3}, "name: "),
    "name is empty": ({"name": ""}, "name: "),
    "name is a list": ({"name": ["a"]}, "name: "),
    "name too long": ({"name": "n" * 101}, "name: "),
    "storage is empty": ({"storage": ""}, "storage: "),
    "storage is blank": ({"storage": "  "}, "storage: "),
    "storage without a path": ({"storage": "s3://"}, "storage: .*a URL that contains a path"),
    "file storage without a path": ({"storage": "file://"}, "storage: .*a URL that contains a path"),
    "storage with an unknown protocol": ({"storage": "nosuch://x"}, "nosuch:// is not a supported kind of URL"),
    "storage with a password": ({"storage": "s3://me:hunter2@bucket/x"}, "must not contain credentials"),
    "storage with a password in capitals": ({"storage": "S3://me:hunter2@bucket/x"}, "must not contain credentials"),
    "storage with a null": ({"storage": "a\0b"}, "null character"),
    "storage of an unknown user": ({"storage": "~nobody-here/x"}, "storage: .*an unknown user"),
    "storage with a wrapping protocol": ({"storage": "dir://x"}, "storage: .*is not a supported kind of URL"),
    "files with a wrapping protocol": (with_source(files="generic://x"), "is not a supported kind of URL"),
    "model with a long name": (with_source(classify={"model": "m" * 5000, "keep": ["a"]}), "classify.model"),
    "tokenizer with a long name": ({"tokenizer": "t" * 5000}, "tokenizer: "),
    "storage is a number": ({"storage": 1}, "storage: "),
    "tokenizer is missing": ({"tokenizer": "missing.json"}, "tokenizer: .*cannot be loaded"),
    "tokenizer is a folder": ({"tokenizer": "in"}, "tokenizer"),
    "tokenizer is another JSON file": ({"tokenizer": "in/a.json"}, "tokenizer: .*cannot be loaded"),
    "tokenizer is not on the hub": ({"tokenizer": "no/such"}, "tokenizer: no/such cannot be loaded"),
    "tokenizer is empty": ({"tokenizer": ""}, "tokenizer: "),
    "tokenizer with a password": ({"tokenizer": "https://u:hunter2@h/t.json"}, "must not contain credentials"),
    "bands do not divide": ({"dedup": {"bands": 7}}, r"dedup: values \(128\) must be bands x rows"),
    "bands are true": ({"dedup": {"bands": True}}, "dedup.bands: a number"),
    "bands are a text": ({"dedup": {"bands": "eight"}}, r"dedup\.bands: "),
    "zero bands": ({"dedup": {"bands": 0}}, r"dedup\.bands: "),
    "values do not equal bands x rows": ({"dedup": {"values": 100}}, r"dedup: values \(100\) must be"),
    "width below zero": ({"dedup": {"width": -1}}, r"dedup\.width: "),
    "unknown kind of shingles": ({"dedup": {"shingle": "bytes"}}, r"dedup\.shingle: "),
    "unknown scope": ({"dedup": {"scope": "all"}}, r"dedup\.scope: "),
    "dedup is a list of numbers": ({"dedup": [1]}, r"dedup\[0\]: "),
    "dedup is empty": ({"dedup": None}, "dedup: "),
    "unknown field": ({"colour": "red"}, "colour: unknown field"),
    "misspelled field": (with_source(txt="body"), r"sources\[0\]\.txt: unknown field; did you mean text\?"),
    "field of a source in the recipe": ({"keep": "a > 1"}, "keep: unknown field; it belongs to each of the sources"),
    "field of the recipe in a source": (with_source(tokenizer="x"), "unknown field; it belongs to the recipe, outside `sources`"),
    "sample is true": ({"sample": True}, "sample: a number"),
    "sample is zero": ({"sample": 0}, "sample: "),
    "sample above one": ({"sample": 2}, "sample: "),
    "sample is NaN": ({"sample": float("nan")}, "sample: "),
    "shards of infinite size": ({"shard_mib": float("inf")}, "shard_mib: "),
    "shards of size zero": ({"shard_mib": 0}, "shard_mib: "),
    "unknown value of on_bad_rows": ({"on_bad_rows": "ignore"}, "on_bad_rows: "),
    "no sources": ({"sources": []}, "sources: "),
    "sources are a text": ({"sources": "a"}, "sources: "),
    "sources are a mapping": ({"sources": {"a": {}}}, "sources: expected a list, whose entries begin with a dash"),
    "source is a text": ({"sources": ["a"]}, r"sources\[0\]: "),
    "licence is a list": ({"license": ["mit"]}, "license: "),
    "source without files": ({"sources": [{"name": "a"}]}, r"sources\[0\]: files: a source needs files; give files, "),
    "empty list of files": (with_source(files=[]), r"sources\[0\]: files: a source needs files"),
    "empty pattern of files": (with_source(files=""), r"sources\[0\]\.files"),
    "numbers as files": (with_source(files=[1]), r"sources\[0\]\.files"),
    "source named like a published file": (with_source(name="manifest.json"), "manifest.json is the name of a file or folder in every published"),
    "source named like the card": (with_source(name="readme.md"), "in every published"),
    "two sources with the same name": (
        {"sources": [{"name": "a", "files": "in/a.parquet"}, {"name": "A", "files": "in/a.parquet"}]},
        "two sources have the name",
    ),
    "empty name of the text column": (with_source(text=""), r"sources\[0\]\.text"),
    "missing text column": (with_source(text="body"), "no column 'body'"),
    "text column of another type": (with_source(text="stars"), "column 'stars' is int64, expected string"),
    "missing files": (with_source(files="in/x*"), r"source a: no file matches .*in/x"),
    "missing folder": (with_source(files="/nowhere/*.parquet"), "no file matches"),
    "folder as a file": (with_source(files="in"), r"source a: no file matches \S+in, which is a folder: write \S+in/\*\*"),
    "invalid pattern": (with_source(files="in/**.parquet"), "source a|no file"),
    "unknown ending": (with_source(files="in/a.csv"), "no file matches|the ending is none of"),
    "unknown protocol": (with_source(files="nosuch://a/b.parquet"), "nosuch:// is not a supported kind of URL"),
    "protocol in capitals": (with_source(files="HTTP://127.0.0.1:9/b.parquet"), "127.0.0.1:9"),
    "signed URL": (with_source(files="https://h/a.parquet?X-Amz-Signature=abc"), "must not contain credentials"),
    "URL with another signature": (with_source(files="https://h/a.parquet?sv=1&SIG=abc"), "must not contain credentials"),
    "password in a nested URL": (with_source(files="simplecache::https://u:hunter2@h/a.parquet"), "must not contain credentials"),
    "unreachable host": (with_source(files="http://127.0.0.1:9/a.parquet"), "127.0.0.1:9"),
    "classify without a model": (with_source(classify={}), r"classify\.model: this field is required"),
    "missing model": (with_source(classify={"model": "no/such", "keep": ["a"]}), "no/such cannot be loaded"),
    "folder without a model": (with_source(classify={"model": "in", "keep": ["a"]}), r"classify\.model: .*in"),
    "unknown label": (with_source(classify={"model": str(QUALITY), "keep": ["Good"]}), "has no label Good"),
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
    "empty file": (b"", "a recipe is a mapping"),
    "a list": (b"- a\n", "a recipe is a mapping"),
    "not valid YAML": (b"a: [", "not valid YAML"),
    "not text": (b"\xff\xfe\x00", "cannot be read"),
    "a control character": (b"name: a\x01b\n", "not valid YAML|cannot be read"),
    "Python object": (b"!!python/object/apply:os.system ['true']\n", "not valid YAML"),
    "repeated key": (b"name: a\nname: b\n", r"recipe\.yaml:2: .*'name' is given twice"),
    "key is a list": (b"[a]: b\n", "recipe"),
    "keys are numbers": (b"1: b\n", "recipe"),
    "deeply nested": (b"a: " + b"[" * 3000 + b"]" * 3000, "recipe"),
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
    others = "a corpus with other sources is published there: its a would be removed"
    renewed = "a corpus of other files is published there: none of the files of source a is in the recipe"
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
            "a corpus with other sources is published there: its a would be removed",
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
    for labels in ("out/swept/published", "out/swept/published/a/*.parquet"):
        (source,) = valid_recipe(tmp_path)["sources"]
        source["join"] = {"from": labels, "on": "sha256", "key": "name", "take": {"label": "text"}}
        (tmp_path / "third.yaml").write_text(yaml.safe_dump(valid_recipe(tmp_path, sources=[source])))
        assert_fails(*zyda("check", "third.yaml"), "source a: it reads the published corpus of this recipe")


def test_recipe_in_a_folder_named_like_a_pattern_is_built(zyda, tmp_path, monkeypatch):
    folder = tmp_path / "sp ace [x]"
    recipe = valid_recipe(folder, sources=[{"name": "a", "files": "in/*.parquet"}])
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert zyda("build", str(folder / "recipe.yaml"))[0] == 0


def test_invalid_server_addresses_are_recognised():
    from zyda_flows.flows.server.health import is_healthy
    from zyda_flows.flows.server.login import Api
    from zyda_flows.tasks.errors import LostWorkers
    from zyda_flows.tasks.workers.scheduler_address import check_address

    assert not is_healthy(Api(url="foo"))
    assert not is_healthy(Api(url="http://127.0.0.1:abc/api"))
    check_address("tls://127.0.0.1:8786")
    for address in ("foo", "tcp://x:y"):
        with pytest.raises(LostWorkers, match="expected tls://host:port, got"):
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
    message = (
        "file/zyda: Not a directory; Prefect stores its history there; set PREFECT_HOME to a writable folder"
    )
    assert_fails(*zyda("up"), message)
    monkeypatch.setattr(local_server, "configured_server", lambda: None)  # the tests configure a server
    with pytest.raises(local_server.NoServer, match=message), local_server.prefect_server():  # for a build
        pass
