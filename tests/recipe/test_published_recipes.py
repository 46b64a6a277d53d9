"""The recipes of published corpora, compared with each fact that their authors published."""

import re

import pytest
import yaml
from pydantic import TypeAdapter
from small_corpus import REPOSITORY

from zyda_flows.tasks.recipe.buckets import Bucket
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.passages import AnyPart
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS

PUBLISHED = yaml.safe_load((REPOSITORY / "tests/data/published/recipes.yaml").read_text())
PAGE = (REPOSITORY / "docs/published-recipes.md").read_text()
CHAPTERS = {"zyda1": "Zyda-1", "zyda2": "Zyda-2", "fineweb": "FineWeb", "fineweb2": "FineWeb-2"}
SOURCE_NAMES = {
    "starcoder-github-issues-filtered-structured": "starcoder-github-issues",
    "starcoder-jupyter-structured-clean-dedup": "starcoder-jupyter",
    "starcoder-git-commits-cleaned": "starcoder-git-commits",
    "Fineweb-edu-score-2": "fineweb-edu-score-2",
    "DCLM": "dclm",
    "Zyda1": "zyda-1",
    "Dolma-CC": "dolma-cc",
}  # names of our sources by the names in the published recipes
LANGUAGE_RULES = {
    "duplicate_lines", "line_punctuation", "new_lines", "mean_word_length", "alphabetic_words", "empty",
    *(name for name in RULE_SETS["fineweb-2"].rules if name.endswith("_grams")),
}  # fmt: skip
FACTS = [(name, fact) for name, published in PUBLISHED.items() for fact in published["facts"]]


def with_our_names(value):
    return [SOURCE_NAMES.get(name, name) for name in value] if isinstance(value, list) else value


def hub_places(recipe):
    """Return the hub repositories of the recipe's files and lists of files."""
    lists = [[source.files_from.url] if source.files_from else [] for source in recipe.sources]
    files = [
        file for source, urls in zip(recipe.sources, lists, strict=True) for file in (*source.files, *urls)
    ]
    matches = (re.match(r"hf://datasets/([^/]+/[^/]+)/", file) for file in files)
    return list(dict.fromkeys(match[1] for match in matches if match))


def splits_of(recipe):
    """Return `train` if no pattern matches a file of another split, else `all`."""
    others = ["en/c4-validation.00000-of-00008.json.gz", "data/v2/validation-00000-of-00002.json.gz",
              "SlimPajama-627B/validation/chunk1/example_holdout_0.jsonl.zst", "pile-uncopyrighted/val.jsonl.zst",
              "starcoderdata/jupyter-scripts-dedup-filtered/train-00000-of-00001.parquet"]  # fmt: skip
    patterns = [as_regex(file) for source in recipe.sources for file in source.files]
    return (
        "train" if not any(re.search(pattern, other) for other in others for pattern in patterns) else "all"
    )


def as_regex(pattern):
    """Return a regular expression for the last three parts of a path that a glob matches."""
    end = "/".join(pattern.split("/")[-3:]).replace("**/", "\0")
    parts = {"\0": "(?:.*/)?", "*": "[^/]*", "[!": "[^", ".": r"\."}
    return re.sub(r"\x00|\*|\[!|\.", lambda match: parts[match[0]], end) + "$"


def rules_of(recipe, name):
    return {statistic: [rule.low, rule.high] for statistic, rule in RULE_SETS[name].rules.items()}


def filter_steps(recipe):
    return [step for step in recipe.documents if step.kind == "filter"]


def filters_of(recipe):
    return [name for step in filter_steps(recipe) for name in set_names(step.filter)]


def set_names(sets):
    return [] if sets is None else [sets] if isinstance(sets, str) else list(sets)


def kept_of_cluster(recipe):
    return {"global": "one document", "across": "all of its best dataset"}[recipe.rounds[0].scope]


FACT_OF_RECIPE = {
    "order of datasets": lambda recipe: [source.name for source in recipe.sources],
    "places on the hub": hub_places,
    "datasets without filters": lambda recipe: [
        source.name for source in recipe.sources if source.documents == ()
    ],
    "parts of the datasets": splits_of,
    "part of Zyda-1": lambda recipe: recipe.sources[2].files[0].split("/data/")[1].split("/")[0],
    "tokenizer": lambda recipe: recipe.tokenizer,
    "limits of the filter": lambda recipe: rules_of(recipe, *filters_of(recipe)),
    "words in a shingle": lambda recipe: recipe.rounds[0].width * (recipe.rounds[0].shingle == "words"),
    "characters in a shingle": lambda recipe: (
        recipe.rounds[0].width * (recipe.rounds[0].shingle == "characters")
    ),
    "values of a signature": lambda recipe: recipe.rounds[0].values,
    "bands and rows": lambda recipe: [recipe.rounds[0].bands, recipe.rounds[0].rows],
    "documents kept of a cluster": kept_of_cluster,
    "comparison of texts": lambda recipe: recipe.rounds[0].verify or "none",
    "a null text": lambda recipe: recipe.on_bad_rows,
    "bad rows": lambda recipe: recipe.on_bad_rows,
    "datasets with a quality model": lambda recipe: [
        source.name for source in recipe.sources if source.classify
    ],
    "labels that are kept": lambda recipe: sorted(
        {k for s in recipe.sources if s.classify for k in s.classify.keep}
    ),
    "minimum educational score": lambda recipe: int(recipe.sources[0].keep.removeprefix("int_score >= ")),
    "input": lambda recipe: recipe.sources[0].files,
    "order of filters": filters_of,
    "terminal punctuation in C4's filter": lambda recipe: next(
        step.filter["c4"]["terminal_punctuation"]
        for step in filter_steps(recipe)
        if "c4" in set_names(step.filter)
    ),
    "deduplicates": lambda recipe: "each crawl by itself" if len(recipe.sources) == 1 else "all together",
    "first step": lambda recipe: "WARC files" if recipe.sources[0].commoncrawl.kind == "warc" else "others",
    "text of a page": lambda recipe: next(step.extractor for step in recipe.documents if step.extractor),
    "order of steps": lambda recipe: [
        *(step.name for step in recipe.documents if step.kind in {"language_id", "filter", "clean"}),
        "dedup",
    ],
    "rules": lambda recipe: [*RULE_SETS[filters_of(recipe)[0]].rules],
    "values for all languages": lambda recipe: {
        rule: values
        for rule, values in rules_of(recipe, *filters_of(recipe)).items()
        if rule not in LANGUAGE_RULES
    },
    "values for a language": lambda recipe: re.sub(
        r".*/(configs/)[a-z]{3}_[A-Z][a-z]{3}",
        r"\1{lang_script}",
        recipe.documents[3].filter["fineweb-2"]["languages"][0],
    ),
    "personal data": lambda recipe: [
        step.settings for step in recipe.documents if "pii" in str(step.settings)
    ],
}


def rows_of(name):
    chapter = PAGE.split(f"\n## {CHAPTERS[name]}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| (same|differs) \| ([^|]*)\|$", chapter, re.MULTILINE)
    return {fact: (mark, why.strip()) for fact, mark, why in rows}


@pytest.mark.parametrize(("name", "fact"), FACTS, ids=[f"{name}: {fact}" for name, fact in FACTS])
def test_recipe_has_the_published_fact_or_the_page_names_the_difference(name, fact):
    recipe = load_recipe(str(REPOSITORY / f"recipes/{name}.yaml"))
    is_same = FACT_OF_RECIPE[fact](recipe) == with_our_names(PUBLISHED[name]["facts"][fact])
    mark, why = rows_of(name)[fact]
    assert mark == ("same" if is_same else "differs")
    assert is_same or why


@pytest.mark.parametrize("name", PUBLISHED)
def test_page_has_a_row_for_each_fact_and_no_other_rows(name):
    assert list(rows_of(name)) == list(PUBLISHED[name]["facts"])
    assert PUBLISHED[name]["published_in"] in PAGE


def test_page_names_the_corpora_and_counts_the_limits_of_its_recipes():
    assert f"published corpora: {', '.join([*CHAPTERS.values()][:-1])} and {CHAPTERS['fineweb2']}." in PAGE
    assert list(CHAPTERS) == list(PUBLISHED) == re.findall(r"^`recipes/(\w+)\.yaml`", PAGE, re.MULTILINE)
    (step,) = filter_steps(load_recipe(str(REPOSITORY / "recipes/zyda1.yaml")))
    rules = {rule for settings in step.sets() for rule in settings.bounds}
    (settings,) = step.sets()
    list_rules = {rule for rule in rules if rule.rpartition(".")[2].partition("_share")[0] in settings.lists}
    assert (len(rules), len(list_rules), len(settings.lists)) == (17, 5, 4)  # the numbers on the page
    assert "| 17 limits | same | five of them count words of four lists" in PAGE


def test_pattern_of_languages_matches_all_folders_but_four():
    patterns = load_recipe(str(REPOSITORY / "recipes/zyda1.yaml")).sources[0].files
    folders = ["ada", "c", "c-sharp", "css", "glsl", "go", "groovy", "java", "java-server-pages", "javascript",
               "json", "julia", "python", "r", "rust", "zig"]  # fmt: skip
    others = ["github-issues-filtered-structured", "git-commits-cleaned", "jupyter-scripts-dedup-filtered",
              "jupyter-structured-clean-dedup"]  # fmt: skip
    matching = {
        folder
        for folder in [*folders, *others]
        for pattern in patterns
        if re.search(as_regex(pattern), f"starcoderdata/{folder}/train-00000-of-00001.parquet")
    }
    assert matching == set(folders)


def test_parts_of_other_pipelines_are_parts_of_a_recipe():
    section = PAGE.partition("## Repeated passages of other pipelines")[2]
    parts = re.findall(r"`(\{(?:length|lines|paragraphs):.*?\})`", section)
    assert len(parts) == 6
    for part in parts:
        TypeAdapter(AnyPart).validate_python(yaml.safe_load(part))


def test_judges_of_other_pipelines_are_judges_of_a_recipe():
    section = PAGE.partition("## Judges of other pipelines")[2]
    judges = re.findall(r"`(\{name:.*?\})`", section)
    assert len(judges) == 8
    for judge in judges:
        Judge.model_validate(yaml.safe_load(judge))
    buckets = re.findall(r"`bucket: (\{of:.*?\})`", section)
    assert [Bucket.model_validate(yaml.safe_load(bucket)).count for bucket in buckets] == [10, 20]
