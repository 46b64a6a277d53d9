"""Errors for recipes with faults: the file, the line, the field and the remedy."""

import re

import pytest

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.loading import load_recipe

GOOD = """\
name: small
storage: ./out
tokenizer: EleutherAI/gpt-neox-20b
dedup: {shingle: characters, width: 25, values: 128, bands: 8, scope: across}
sources:
  - name: first
    files: in/*.parquet
  - name: second
    files: [a/*.jsonl.gz, s3://bucket/b/*.jsonl.zst]
    keep: int_score >= 3
"""


def load(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return load_recipe(str(path))


def test_relative_paths_are_relative_to_the_recipe(tmp_path):
    recipe = load(tmp_path, GOOD)
    assert recipe.storage == str(tmp_path / "out")
    assert recipe.sources[0].files == (str(tmp_path / "in/*.parquet"),)
    assert recipe.sources[1].files[1] == "s3://bucket/b/*.jsonl.zst"
    assert recipe.tokenizer == "EleutherAI/gpt-neox-20b"


def test_shingles_have_25_characters_or_13_words_by_default(tmp_path):
    dedup = "dedup: {shingle: characters, width: 25, values: 128, bands: 8, scope: across}"
    for setting, width in (
        ("", 25),
        ("dedup: {shingle: words}", 13),
        ("dedup: {shingle: words, width: 5}", 5),
    ):
        assert load(tmp_path, GOOD.replace(dedup, setting)).rounds[0].width == width


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("name: small", "name: a/b"), r"recipe\.yaml:1: name: expected letters"),
        (("storage: ./out\n", ""), r"recipe\.yaml:1: storage: this field is required"),
        (("bands: 8", "bands: 7"), r"recipe\.yaml:4: dedup: values \(128\) must be bands x rows"),
        (
            ("scope: across", "scope: within"),
            r"recipe\.yaml:4: dedup\.scope: .*'across' or 'global'.*'within'",
        ),
        (("width: 25", "wide: 25"), r"recipe\.yaml:4: dedup\.wide: unknown field"),
        (("dedup:", "dedupe:"), r"recipe\.yaml:4: dedupe: unknown field; did you mean dedup\?"),
        (("dedup:", "rounds:"), r"recipe\.yaml:4: rounds: unknown field$"),
        (("name: second", "name: first"), r"recipe\.yaml:6: sources: two sources have the name first"),
        (
            ("name: second", "name: removed"),
            r"recipe\.yaml:8: sources\[1\]\.name: removed is the name of a file",
        ),
        (("files: in/*.parquet", "files: 3"), r"recipe\.yaml:7: sources\[0\]\.files: "),
        (("sources:", "sources: ["), r"recipe\.yaml:\d+: not valid YAML"),
        (("name: small", "sample: 0\nname: small"), r"recipe\.yaml:1: sample: .*more than 0 \(found 0\)"),
    ],
)
def test_fault_names_file_line_field_and_remedy(tmp_path, change, fault):
    with pytest.raises(BadRecipe) as error:
        load(tmp_path, GOOD.replace(*change))
    assert re.search(fault, str(error.value)), str(error.value)


def test_all_faults_are_shown_at_once(tmp_path):
    with pytest.raises(BadRecipe) as error:
        load(tmp_path, GOOD.replace("bands: 8", "bands: 0").replace("width: 25", "width: 0"))
    assert len(error.value.faults) == 2


def test_more_than_1024_sources_raise(tmp_path):
    sources = "".join(f"  - {{name: s{i}, files: x}}\n" for i in range(1025))
    with pytest.raises(BadRecipe, match="1024"):
        load(tmp_path, GOOD[: GOOD.index("  - name: first")] + sources)


def test_missing_recipe_raises(tmp_path):
    with pytest.raises(BadRecipe, match=r"nothing\.yaml: cannot be read"):
        load_recipe(str(tmp_path / "nothing.yaml"))


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("./out", "s3://key:hunter2@bucket/out", ":2: storage: "),
        ("in/*.parquet", "ftp://me:hunter2@host/*.parquet", r":7: sources\[0\]\.files\[0\]: "),
    ],
)
def test_credentials_in_a_url_raise_without_being_repeated(tmp_path, before, after, place):
    with pytest.raises(BadRecipe, match=place + "a recipe must not contain credentials") as error:
        load(tmp_path, GOOD.replace(before, after))
    assert "hunter2" not in str(error.value)


def nested_yaml(first, level):
    """Return YAML of twelve levels; each level refers to the level before it ten times."""
    levels = [f"a0: &a0 {first}"]
    levels += [f"a{i}: &a{i} {level % ', '.join([f'*a{i - 1}'] * 10)}" for i in range(1, 12)]
    return "\n".join(levels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested_yaml("{k: 1}", "{<<: [%s]}"), "more than 50,000 values"),
        (nested_yaml("[x]", "[%s]"), "more than 50,000 values"),
        ("sources: &a [*a]", "more than 50,000 values"),
        ("sources: &a {b: *a}", "more than 50,000 values"),
        (f"sources: [{'1,' * 60_000}1]", "more than 50,000 values"),
        (f"sources: [{'1,' * 5_000_000}1]", "it has more than 1,048,576 bytes"),
        (f"sources: {'[' * 100_000}{']' * 100_000}", "nested too deep"),
    ],
    ids=["merges", "names", "itself", "itself in a mapping", "values", "bytes", "levels"],
)
def test_recipe_beyond_a_limit_raises_a_message_of_one_line(tmp_path, text, message):
    with pytest.raises(BadRecipe, match=message) as error:
        load(tmp_path, text)
    assert len(str(error.value).splitlines()) == 1


def test_message_lists_a_hundred_faults_and_the_number_of_the_others(tmp_path):
    with pytest.raises(BadRecipe) as error:
        load(tmp_path, f"name: x\nsources: [{'1,' * 500}1]")
    assert len(error.value.faults) == 101
    assert error.value.faults[-1].endswith(" faults more")


def test_long_invalid_value_is_shortened_in_the_message(tmp_path):
    with pytest.raises(BadRecipe) as error:
        load(tmp_path, GOOD.replace("name: small", f"name: {'x' * 100_000}"))
    assert len(str(error.value)) < 1000
