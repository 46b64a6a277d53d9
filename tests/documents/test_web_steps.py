"""Test the steps for raw web pages (address rules, extraction, languages) and deduplication by a column."""

import gzip
import json
import re
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from language_models import TEXTS, train_model
from small_corpus import TOKENIZER, build_here, prose

from zyda_flows.flows.command.explain import print_explanation
from zyda_flows.flows.command.ledger import show_corpus
from zyda_flows.flows.command.try_recipe import limits
from zyda_flows.tasks.documents.url_rules import plan_url_rules, url_columns
from zyda_flows.tasks.errors import BadRecipe, Damaged
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.planning.try_rules import try_steps
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.steps.url_rules import UrlRules

LISTS = {
    "domains": "bad.example\n# a note\n*.worse.example\n10.0.0.1\nmüller.example\n",
    "urls": "good.example/forbidden\nhttps://good.example/one?page=2\n",
    "words": "casino\nxxx\nstrip-club\nспинки\nहिन्दी\n",
    "subwords": "poker\nBig Bet\nBücher-Markt\n赌场\n",
    "soft_words": "free\ncheap\nдаром\n",
}


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lists")
    for kind, content in LISTS.items():
        (folder / kind).write_text(content)
    (folder / "subwords.gz").write_bytes(gzip.compress(b"badword\n"))
    files = {kind: [str(folder / kind)] for kind in LISTS}
    files["subwords"].append(str(folder / "subwords.gz"))
    return plan_url_rules(UrlRules(**files))


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("https://bad.example/a", "domains"), ("http://www.BAD.example:80/", "domains"), ("https://bad.example./", "domains"),
        ("https://notbad.example/", None), ("https://bad.example.org/", None), ("https://a.worse.example", "domains"),
        ("http://10.0.0.1/x", "domains"), ("https://good.example/forbidden", "urls"),
        ("https://good.example/forbidden/below/it?x", "urls"), ("https://good.example/forbidden-not", None),
        ("https://good.example/one?page=2", "urls"), ("https://good.example/one?page=3", None),
        ("https://good.example/the-CASINO/", "words"), ("https://good.example/casinos", None),
        ("https://play.example/video_poker1", "subwords"), ("https://play.example/bad-word", "subwords"),
        ("https://play.example/free", None), ("https://play.example/free/free", None),
        ("https://play.example/stripclub", "words"), ("https://play.example/strip-club", None),
        ("https://play.example/big/bets", "subwords"), ("https://xn--mller-kva.example", "domains"),
        ("bad.example/a", "domains"), ("//bad.example", "domains"), ("bad.example", "domains"), ("casino", None),
        ("https://good.example./forbidden", "urls"), ("https://good.example.:8080/forbidden", None),
        ("https://play.example/free-cheap", "soft_words"), ("mailto:casino@x.example", None), ("", None), (None, None),
        ("https://play.example/мои-СПИНКИ", "words"), ("https://спинки.example/", "words"), ("https://play.example/спинкихх", None),
        ("https://play.example/?q=%D1%81%D0%BF%D0%B8%D0%BD%D0%BA%D0%B8", "words"), ("https://play.example/हिन्दी/", "words"),
        ("https://play.example/das-b%C3%BCcher-markt", "subwords"), ("https://play.example/bu\u0308cher/markt", "subwords"),
        ("https://play.example/最大赌场", "subwords"), ("https://play.example/free/даром", "soft_words"),
        ("https://play.example/даром", None), ("https://xn--a.example/%FF%D1", None),
    ],
)  # fmt: skip
def test_address_is_removed_by_the_first_matching_rule(rules, address, rule):
    columns = url_columns(rules, pa.table({"url": pa.array([address], pa.string())}))
    assert [kind for kind, notes in columns.items() if notes[0].is_valid] == (
        [f"url_rules.{rule}"] if rule else []
    )


def test_long_domain_list_matches_by_hashes(tmp_path):
    (tmp_path / "domains").write_text("".join(f"host{i}.example\n" for i in range(100_000)))
    rules = plan_url_rules(UrlRules(domains=[str(tmp_path / "domains")]))
    addresses = [f"https://www.host{i}.example/" for i in range(99_990, 100_010)]
    notes = url_columns(rules, pa.table({"url": addresses}))["url_rules.domains"]
    assert notes.is_valid().to_pylist() == [True] * 10 + [False] * 10


@pytest.fixture(scope="module")
def languages(tmp_path_factory):
    """Return a model that distinguishes two languages, and texts in both."""
    return train_model(tmp_path_factory.mktemp("model")), TEXTS


@pytest.fixture(scope="module")
def pages(languages, tmp_path_factory):
    """Return the folder of a recipe for pages in two languages, some with equal addresses."""
    model, texts = languages
    folder = tmp_path_factory.mktemp("pages")
    rows = [
        {
            "url": f"https://{'bad' if i % 5 == 0 else 'good'}.example/{label}/{i // 2}",
            "text": f"<html><body><main><h1>{i}</h1><p>{text} {i}. {text}</p></main></body></html>",
        }
        for label, texts_of_label in texts.items()
        for i, text in enumerate(texts_of_label[:20])
    ]
    rows += [
        {"url": "https://good.example/empty", "text": "<html><script>1</script></html>"},
        {"url": None, "text": rows[1]["text"]},
    ]
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "domains.txt").write_text("bad.example\n")
    (folder / "recipe.yaml").write_text(
        f"""
name: web
storage: out
tokenizer: {TOKENIZER}
documents:
  - url_rules: {{domains: domains.txt}}
  - extract: fast
  - language_id: {{model: {model}, keep: {{de: 0.6}}}}
dedup:
  - {{exact: {{column: url}}, scope: global}}
  - {{exact: text, scope: global}}
sources: [{{name: pages, files: pages.jsonl}}]
"""
    )
    build_here(load_recipe(str(folder / "recipe.yaml")))
    return folder


def test_every_page_is_kept_or_removed_with_a_single_reason(pages):
    published = pages / "out/web/published"
    reasons = pq.read_table(published / "reasons.parquet").to_pylist()
    assert {row["reason"]: row["documents"] for row in reasons} == {
        "url_rules.domains": 8, "extract-fast.emptied": 1, "language_id.language": 16, "same_url": 6,
        "exact_duplicate": 1,
    }  # fmt: skip
    kept = pq.read_table(published / "pages").to_pylist()
    assert len(kept) + sum(row["documents"] for row in reasons) == 42
    assert {row["language"] for row in kept} == {"de"}
    assert min(row["language_probability"] for row in kept) >= 0.6
    assert all("<" not in row["text"] and row["text"].startswith(("#", *"0123456789")) for row in kept)


def test_page_removed_by_its_address_is_not_extracted_and_has_no_tokens(pages):
    published = pages / "out/web/published"
    reasons = pq.read_table(published / "reasons.parquet").to_pylist()
    assert {row["tokens"] for row in reasons if row["reason"] == "url_rules.domains"} == {0}
    cleaned = pq.read_table(published / "cleaned.parquet").to_pylist()
    assert [(row["cleaning"], row["documents"]) for row in cleaned] == [("extract-fast", 34)]


def test_documents_by_language_add_up(pages):
    rows = pq.read_table(pages / "out/web/published/languages.parquet").to_pylist()
    by_language = {}
    for row in rows:
        by_language[row["language"]] = by_language.get(row["language"], 0) + row["documents"]
    assert by_language == {"de": 17, "en": 16, None: 9}
    card = (pages / "out/web/published/README.md").read_text()
    assert "Languages, as the model names them" in card
    assert "tokens from 1 source, " in card
    assert "Duplicates of each source in round 2, in documents" in card


def test_ledger_shows_languages(pages, capsys):
    show_corpus(load_recipe(str(pages / "recipe.yaml")))
    shown = capsys.readouterr().out
    assert re.search(r"de\W+17 .* 10 ", shown)
    assert re.search(r"en\W+16 .* 0 ", shown)


@pytest.mark.parametrize("content", [b"", b"PAR1 cut", None])
def test_damaged_language_table_raises_with_a_remedy(pages, content):
    file = pages / "out/web/published/languages.parquet"
    whole = file.read_bytes()
    if content is None:
        pq.write_table(pa.table({"other": [1]}), file)
    else:
        file.write_bytes(content)
    try:
        with pytest.raises(
            Damaged, match=r"languages\.parquet cannot be read: .*; zyda verify --repair repairs it$"
        ):
            show_corpus(load_recipe(str(pages / "recipe.yaml")))
    finally:
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"extract": "slow"}], "extract: unknown extractor slow; use one of fast, structured"),
        ([{"filter": "fineweb"}, {"extract": "fast"}], "filter is before extract but reads texts"),
        ([{"extract": "fast"}, {"extract": "structured"}], "extract is given twice"),
        ([{"url_rules": {}}], "url_rules: no file is given"),
        ([{"url_rules": {"domains": "gone.txt"}}], "no file matches .*gone.txt"),
        ([{"url_rules": {"column": "text", "domains": "pages.jsonl"}}], "text is the text of source pages"),
        ([{"language_id": {"model": "pages.jsonl"}}], "language_id.model, file .*pages.jsonl: "),
        (
            [{"language_id": {"model": "MODEL", "keep": {"dde": 0.5}}}],
            "the model has no language 'dde'; it has en, de",
        ),
        (
            [{"language_id": {"model": "MODEL", "keep": {"de": 2}}}],
            r"documents\[0\]\.language_id\.keep\.de: expected at most 1 \(found 2\)$",
        ),
        ([{"language_id": {"model": "MODEL", "keep": ["de"]}}], r"de is not a file; .*: `\{de: 0\.65\}`"),
    ],
)
def test_invalid_step_raises(pages, languages, steps, message):
    model = str(languages[0])
    text = json.dumps(steps).replace("MODEL", model)
    recipe = (pages / "recipe.yaml").read_text()
    (pages / "other.yaml").write_text(
        f"{recipe.partition('documents:')[0]}documents: {text}\nsources:{recipe.rpartition('sources:')[2]}"
    )
    with pytest.raises(BadRecipe, match=message):
        build_here(load_recipe(str(pages / "other.yaml")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("url_rules: {domains", "url_rules: {column: adress, domains"),
            "url_rules.column: no column 'adress'; there are 'url', 'text'",
        ),
        (("column: url", "column: adress"), "dedup: no source has the column 'adress' of a round"),
    ],
)
def test_missing_column_of_a_parquet_source_raises(pages, change, message):
    rows = [json.loads(line) for line in (pages / "pages.jsonl").read_text().splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), pages / "pages.parquet")
    recipe = (pages / "recipe.yaml").read_text().replace("pages.jsonl", "pages.parquet")
    (pages / "other.yaml").write_text(recipe.replace(*change).replace("name: web", "name: columns"))
    with pytest.raises(BadRecipe, match=message):
        build_here(load_recipe(str(pages / "other.yaml")))


def test_empty_page_is_removed_like_a_page_without_text(pages):
    rows = [{"url": "https://good.example/", "text": text} for text in ("", "<p></p>", prose("x", 40))]
    (pages / "nothing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = (pages / "recipe.yaml").read_text().replace("pages.jsonl", "nothing.jsonl")
    (pages / "nothing.yaml").write_text(recipe.replace("name: web", "name: nothing"))
    ledger = build_here(load_recipe(str(pages / "nothing.yaml")))
    assert ledger.removed_by("rules")["extract-fast.emptied"].documents == 2


def test_round_on_a_column_without_values_keeps_all_documents(pages, caplog):
    recipe = (
        (pages / "recipe.yaml")
        .read_text()
        .replace("column: url", "column: gone")
        .replace("name: web", "name: gone")
    )
    (pages / "gone.yaml").write_text(recipe)
    build_here(load_recipe(str(pages / "gone.yaml")))
    assert "no document has a value in 'gone', so this round keeps all documents" in caplog.text


def test_only_the_page_on_which_extraction_fails_is_removed(pages, monkeypatch):
    def breaking(html):
        if ">3<" in html:
            raise RecursionError("too deep")
        return prose(html, 60)

    monkeypatch.setattr(
        "zyda_flows.tasks.documents.extraction.extractor_named",
        lambda name: SimpleNamespace(load=lambda: lambda html: breaking(str(html.data, "utf-8"))),
    )
    (pages / "breaking.yaml").write_text(
        (pages / "recipe.yaml").read_text().replace("name: web", "name: breaking")
    )
    build_here(load_recipe(str(pages / "breaking.yaml")))
    removed = pq.read_table(pages / "out/breaking/published/removed").to_pylist()
    assert [row["note"] for row in removed if row["reason"] == "extract-fast.failed"] == [
        "RecursionError: too deep"
    ] * 2


def test_trial_applies_address_and_language_rules_to_extracted_texts(pages):
    trial = try_steps(load_recipe(str(pages / "recipe.yaml")), 42)
    assert trial.rules["url_rules.domains"].total == 8
    assert trial.rules["language_id.language"].total >= 16
    (shown, *_) = trial.rules["language_id.language"].examples
    assert "<p>" not in shown.text
    assert limits(trial.rules["url_rules.domains"]) == "its domain or a parent of its domain is in a list"


def test_source_removed_entirely_by_addresses_has_no_tokens(pages):
    rows = [{"url": "https://bad.example/", "text": f"<p>{prose(str(i), 50)}"} for i in range(5)]
    (pages / "bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = (
        (pages / "recipe.yaml")
        .read_text()
        .replace("name: web", "name: bad")
        .replace("pages.jsonl", "bad.jsonl")
    )
    (pages / "bad.yaml").write_text(recipe)
    ledger = build_here(load_recipe(str(pages / "bad.yaml")))
    assert (ledger.of("ingest").documents, ledger.of("ingest").tokens) == (5, 0)


def test_custom_function_extracts_pages(pages, monkeypatch, tmp_path):
    (tmp_path / "own_pages.py").write_text(
        "import pyarrow.compute as pc\n\n\ndef bare(pages):\n"
        "    return pc.replace_substring_regex(pages, '<[^>]*>', '')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ZYDA_STEPS", "own_pages")
    recipe = (pages / "recipe.yaml").read_text().replace("name: web", "name: own")
    (pages / "own.yaml").write_text(recipe.replace("extract: fast", "extract: 'own_pages:bare'"))
    ledger = build_here(load_recipe(str(pages / "own.yaml")))
    texts = [row["text"] for row in pq.read_table(pages / "out/own/published/pages").to_pylist()]
    assert texts
    assert not any("<" in text for text in texts)
    removed = ledger.removed_by("rules")
    assert (removed["url_rules.domains"].documents, removed["url_rules.domains"].tokens) == (8, 0)


CODE = "if x:\n    return {}\n}\n" * 30
CELLS = "".join(f"<tr><td>{i}<td>{i * i}<td>#{i}" for i in range(60))
WITH_STRUCTURE = f"""<main><h1>Usage</h1><p>{prose("a", 60)}. The words of it have to be of some use, and that is all.</p>
<pre>{CODE}</pre><h2>Values</h2><table><tr><th>n<th>square<th>id{CELLS}</table><h2>Home</h2><p>Home</p></main>"""


@pytest.mark.parametrize("extract", ["fast", "structured"])
def test_rules_for_prose_ignore_code_and_tables_of_markdown(pages, extract, capsys):
    (pages / "structure.jsonl").write_text(json.dumps({"text": WITH_STRUCTURE}) + "\n")
    steps = [
        {"extract": extract},
        {"filter": "gopher-quality"},
        {"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}},
        {"measure": "gopher-quality"},
        {"measure": "code"},
    ]
    (pages / "structure.yaml").write_text(
        f"""
name: structure-{extract}
storage: out
tokenizer: {TOKENIZER}
documents: {json.dumps(steps)}
dedup: {{exact: text, scope: global}}
sources: [{{name: pages, files: structure.jsonl}}]
"""
    )
    build_here(load_recipe(str(pages / "structure.yaml")))
    published = pages / f"out/structure-{extract}/published"
    if extract == "fast":
        (removed,) = pq.read_table(published / "removed").to_pylist()
        assert removed["reason"] == "gopher-quality.mean_word_length"
        print_explanation(explain(load_recipe(str(pages / "structure.yaml")), str(removed["doc_id"])))
        assert re.search(r"text, extracted by fast:\n  Usage\n", capsys.readouterr().out)
        return
    (kept,) = pq.read_table(published / "pages").to_pylist()
    assert f"\n\n```\n{CODE.strip()}\n```\n\n## Values\n\n| n | square | id |\n| --- |" in kept["text"]
    assert kept["text"].endswith("| 59 | 3481 | #59 |")
    assert (kept["gopher_quality_hashes"], kept["gopher_quality_words"] < 200) == (0, True)
    assert kept["code_max_line_length"] > 60


def test_extractor_that_is_not_installed_raises_before_work_begins(pages, monkeypatch):
    def missing(library):
        raise PackageNotFoundError(library)

    monkeypatch.setattr("zyda_flows.tasks.extraction.extractors.version", missing)
    (pages / "other.yaml").write_text(
        (pages / "recipe.yaml").read_text().replace("extract: fast", "extract: trafilatura")
    )
    with pytest.raises(
        BadRecipe,
        match=r"extract: trafilatura is not installed; run pip install 'zyda-flows\[trafilatura\]'",
    ):
        build_here(load_recipe(str(pages / "other.yaml")))


def test_round_on_a_column_that_is_not_carried_raises(pages):
    recipe = (
        (pages / "recipe.yaml").read_text().replace("files: pages.jsonl", "files: pages.jsonl, columns: []")
    )
    (pages / "other.yaml").write_text(
        recipe.replace("url_rules: {domains: domains.txt}", "clean: newlines").replace(
            "extract: fast", "clean: unicode"
        )
    )
    with pytest.raises(
        BadRecipe, match="dedup: a round compares the column url, which source pages does not carry"
    ):
        load_recipe(str(pages / "other.yaml"))
