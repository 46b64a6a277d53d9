"""Test the output of `zyda check` for valid recipes."""

import pytest
from small_corpus import build_here
from tokenizers import Tokenizer, models, pre_tokenizers

from zyda_flows.flows.command.check import NO_FAULT, check_recipe
from zyda_flows.tasks.errors import BadRecipe

COMPILED = "counted by fastokens, about 100 MB/s of text a core, and checked against tokenizers"
BY_LIBRARY = "counted by its own library (tokenizers), about 2 to 3 MB/s of text a core: its model is WordLevel, not BPE"


def output_of_check(recipe, capsys):
    check_recipe(recipe, replace=False)
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("kind", ["byte-level", "word-level"])
def test_check_shows_the_token_counter_and_its_speed(corpus, capsys, kind):
    tokenizer = corpus.recipe["tokenizer"]
    if kind == "word-level":
        tokenizer = str(corpus.folder / "words.json")
        words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        words.save(tokenizer)
    expected = COMPILED if kind == "byte-level" else BY_LIBRARY
    assert f"{tokenizer}, {expected}" in output_of_check(corpus.load(tokenizer=tokenizer), capsys)


def test_check_shows_no_duration_before_the_first_build(corpus, capsys):
    recipe = corpus.load()
    output = output_of_check(recipe, capsys)
    assert output.endswith(f"/published {NO_FAULT}")
    assert not [word for word in ("second", "minute", "hour", "It takes") if word in output]
    build_here(recipe)
    assert "a build has nothing to do" in output_of_check(recipe, capsys)


def test_check_names_unreadable_files_to_be_set_aside(corpus, capsys):
    complete, truncated = corpus.folder / "in/best-0.parquet", corpus.folder / "in/best-9.parquet"
    truncated.write_bytes(complete.read_bytes()[:-20])
    assert f"to be set aside: {truncated}: " in output_of_check(corpus.load(on_bad_rows="set_aside"), capsys)
    for path in corpus.folder.glob("in/best-[0-8].parquet"):
        path.unlink()
    with pytest.raises(
        BadRecipe, match=r"source best, file .*best-9\.parquet: none of its files can be read"
    ):
        check_recipe(corpus.load(on_bad_rows="set_aside"), replace=False)


def test_check_names_sources_that_read_the_same_files(corpus, capsys):
    best, middle, _ = corpus.recipe["sources"]
    middle["files"] = best["files"]
    shared = len([*corpus.folder.glob(best["files"])])
    assert f"source middle reads {shared} of the files that source best reads, too" in output_of_check(
        corpus.load(), capsys
    )
