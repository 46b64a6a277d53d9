"""Rows set aside: their published content, deny lists that match them, and requests that remove them."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forgetting import asking, forget
from leaks import decoded, files_with, texts_in
from small_corpus import build_here, prose, table_of

from zyda_flows.tasks.documents.deny_list import DenyList, requests_of
from zyda_flows.tasks.documents.deny_rows import RowJudge, request_for_row

ASKED, OTHER = prose("asked about"), prose("another")
PAGE = "https://jane.example/me"
GOOD = {"url": "https://a.example/", "author": "a", "text": prose("good")}
SIGNED = {"column": "author", "value_sha256": hashlib.sha256(b"Jane Doe").hexdigest()}
# Lines of JSON that are no documents, and whether deny lists match them.
LINES = {
    json.dumps({"url": PAGE, "text": None}): True,
    json.dumps({"url": "jane.example/me/", "text": 1}): True,
    json.dumps({"url": "https://b.example/", "meta": {"author": "x", "pages": [PAGE]}, "text": 1}): True,
    json.dumps({"url": "https://b.example/", "author": "Jane Doe", "text": None}): True,
    json.dumps({"url": "https://b.example/", "author": "Jane Doering", "text": None}): False,
    json.dumps({"url": "https://b.example/", "body": ASKED.upper()}): True,
    json.dumps({"url": "https://b.example/", "body": ASKED + " more"}): False,
    '{"url": "https:\\/\\/JANE.example\\/me", "text": "cut': True,
    '{"url": "https:\\u002f\\u002fjane.example/me", "text": "cut': True,
    '{"text": "mail me@jane.example, please': True,
    '{"author" : "Jane Doe", "text": "cut': True,
    '{"author": "Jane Doe': True,
    '{"author": "Jane \\u0044oe", "text": "cut': True,
    '{"author": "Jane Doering", "text": "cut': False,
    '{"text": ' + json.dumps(ASKED) + ', "x"': True,
    '{"text": "' + OTHER: False,
    json.dumps({"author": ["Jane Doe", "x"], "text": None}): True,
    json.dumps({"author": {"name": "Jane Doe"}, "text": None}): True,
    json.dumps({"meta": {"author": "Jane Doe"}, "text": None}): True,
    json.dumps({"meta": {"editor": "Doe, Jane"}, "text": None}): False,
    '{"author": "Jane Doe", "author": "x", "text": null}': True,
    "{'author': 'Jane Doe', 'text': 'x'}": True,
    '{"url": "https://m\\u00fcnchen.example/x", "text":"cut': True,
    "no JSON at all": False,
}
TABLE = {
    "name,author,text\n": None,
    f"n0,a,{prose('of a table')}\n": None,
    f"n1,Jane Doe,{OTHER},more\n": True,
    f"n2,b,{OTHER},www.jane.example/x\n": True,
    f'n3,"Jane Doe,{OTHER}\n': False,  # a quote without an end: no field is Jane Doe
    f'n4,"Jane\nDoe","{OTHER}",more\n': False,
    f'n5,"Doe, Jane","{OTHER}",more\n': True,
    f"n6,b,{OTHER},more\n": False,
}
PARQUET = [
    {"url": "https://b.example/1", "author": "b", "text": b"fine"},
    {"url": PAGE, "author": "b", "text": b"\xff" + OTHER.encode()},
    {"url": "https://b.example/2", "author": "Jane Doe", "text": None},
    {"url": "https://b.example/3", "author": "b", "text": b"\xff" + OTHER.encode()},
]


@pytest.fixture
def broken(corpus):
    """Return a corpus of three sources with rows set aside, and a deny list."""
    folder = corpus.folder / "in"
    (folder / "lines.jsonl").write_text("".join(f"{line}\n" for line in [json.dumps(GOOD), *LINES]))
    (folder / "table.csv").write_text("".join(TABLE))
    table = pa.Table.from_pylist(PARQUET)
    texts = table.column("text").combine_chunks().view(pa.string())
    pq.write_table(table.set_column(2, "text", texts), folder / "rows.parquet")
    names = {"lines": "lines.jsonl", "table": "table.csv", "rows": "rows.parquet"}
    corpus.recipe |= {
        "name": "mine",
        "on_bad_rows": "set_aside",
        "sources": [{"name": name, "files": f"in/{file}"} for name, file in names.items()],
    }
    others = {"column": "author", "value": "Doe, Jane"}
    lines = [
        "jane.example",
        "münchen.example",
        json.dumps(others),
        json.dumps(SIGNED),
        json.dumps({"letters_sha256": letters_of(ASKED)}),
    ]
    (folder / "asked.txt").write_text("\n".join(lines))
    return corpus


def letters_of(text):
    return hashlib.sha256(text.replace(" ", "").lower().encode()).hexdigest()


def has(line, text):
    return text in line.lower() or text in line or text.upper() in line


def contents_of(recipe, source):
    return [row["content"] for row in table_of(recipe, "set_aside") if row["source"] == source]


def check_accounts(ledger, recipe):
    for line in ledger.lines:
        if line.stage == "ingest":
            rows = [row for row in table_of(recipe, "set_aside") if row["source"] == line.source]
            assert line.set_aside.documents == len(rows)


def test_content_is_published_only_if_the_recipe_sets_it(broken):
    recipe = broken.load()
    ledger = build_here(recipe)
    check_accounts(ledger, recipe)
    assert {*table_of(recipe, "set_aside")[0]} == {"source", "file", "row", "reason"}
    assert (
        files_with(OTHER, broken.folder / "out/mine") == files_with(ASKED, broken.folder / "out/mine") == []
    )


def test_deny_lists_match_all_readable_content_of_rows(broken):
    recipe = broken.load(deny="in/asked.txt", publish_set_aside=True)
    ledger = build_here(recipe)
    check_accounts(ledger, recipe)
    lines = dict(zip(LINES, contents_of(recipe, "lines"), strict=True))
    assert {line: content is None for line, content in lines.items()} == LINES
    assert all(content == line.encode() for line, content in lines.items() if content is not None)
    is_denied = [value for value in TABLE.values() if value is not None]
    assert [content is None for content in contents_of(recipe, "table")] == is_denied
    rows = [row for row in table_of(recipe, "set_aside") if row["source"] == "rows"]
    assert [(row["row"], row["content"] is None, row["columns"] is None) for row in rows] == [
        (1, True, True), (2, True, True), (3, False, False),
    ]  # fmt: skip
    assert json.loads(rows[2]["columns"]) == {"url": "https://b.example/3", "author": "b"}
    names = ("jane.example", "Jane Doe", "Jane \\u0044oe")
    for path in (broken.folder / "out/mine/published").rglob("*"):
        if path.is_file():
            values, content = decoded(path)
            texts = [
                value
                for value in (*texts_in(values), *texts_in(content))
                if any(name in value for name in names)
            ]
            assert all("Jane Doering" in value or "Jane Doe," in value for value in texts), path
    # Without the list, all is published, and the rows of the list alone are made again.
    recipe = broken.load(publish_set_aside=True)
    build_here(recipe)
    assert contents_of(recipe, "lines") == [line.encode() for line in LINES]


@pytest.mark.slow
def test_removed_row_is_denied_after_its_file_changes(broken):
    broken.recipe["publish_set_aside"] = True
    build_here(broken.load())
    cut = '{"text": "' + OTHER  # a request for the text matches a part of it
    requested, recipe, _ = forget(
        broken, asking(domains=["jane.example"], columns=["author=Jane Doe"], texts=[OTHER + " and more."])
    )
    assert {document.stage for document in requested.documents} == {"set aside"}
    assert contents_of(recipe, "lines")[[*LINES].index(cut)] == b""
    assert files_with(OTHER, broken.folder / "out/mine") == []
    for name, line in (("lines.jsonl", json.dumps(GOOD | {"text": prose("later")})), ("table.csv", "n9,a,b")):
        with (broken.folder / "in" / name).open("a") as file:
            file.write(f"{line}\n")
    rows = pq.read_table(broken.folder / "in/rows.parquet")
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), broken.folder / "in/rows.parquet")
    recipe = broken.load()
    ledger = build_here(recipe)
    check_accounts(ledger, recipe)
    assert files_with(OTHER, broken.folder / "out/mine/published") == []
    lines = dict(zip(LINES, contents_of(recipe, "lines"), strict=True))
    kept = [line for line, content in lines.items() if content]
    assert kept == [
        line
        for line, is_denied in LINES.items()
        if line != cut and (not is_denied or has(line, ASKED) or "nchen.example" in line)
    ]
    # Rows that were never published are erased by the next request.
    _, recipe, _ = forget(broken, asking(domains=["jane.example"]))
    assert files_with(OTHER, broken.folder / "out/mine") == []


def test_row_requested_by_id_is_matched_by_its_content_in_the_source(broken):
    """Also if its content is not stored yet."""
    build_here(broken.load())
    place = [*LINES].index('{"text": "' + OTHER) + 1
    first = broken.load().folder  # the source is number 0, its file too: the id is the row
    requested, recipe, _ = forget(broken, asking(ids=[str(place)]))
    assert [(document.row, document.stage) for document in requested.documents] == [(place, "set aside")]
    assert first.exists("denied")
    with (broken.folder / "in/lines.jsonl").open("a") as file:
        file.write(json.dumps(GOOD | {"text": prose("later")}) + "\n")
    recipe = broken.load(publish_set_aside=True)
    build_here(recipe)
    contents = contents_of(recipe, "lines")
    assert [place for place, content in enumerate(contents, 1) if content is None] == [place]
    # A repaired row is a document, and its text is denied.
    with (broken.folder / "in/lines.jsonl").open("a") as file:
        file.write('{"text": "' + OTHER + '"}\n{"text": "innocent"}\n')
    recipe = broken.load(publish_set_aside=True)
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "lines")] == [GOOD["text"], prose("later"), "innocent"]


@pytest.mark.parametrize(
    ("row", "grown"),
    [
        (
            '{"author": "x", "text": null, "mail": "jo"}',
            '{"author": "x", "text": null, "mail": "jo", "k": 1}',
        ),
        ('{"text": "cut in the middle of it', '{"text": "cut in the middle of its word'),
        ('{"text": "cut in the middle of it"', '{"text": "cut in the middle of it", "x'),
    ],
)
def test_removed_row_is_matched_after_more_is_added(row, grown):
    judge = RowJudge(DenyList([request_for_row(row.encode(), None)]))
    assert judge.is_denied(row.encode(), None)
    assert judge.is_denied(grown.encode(), None)
    assert not judge.is_denied(b'{"text": "another row, also cut', None)


def test_short_row_is_matched_only_if_equal():
    judge = RowJudge(DenyList([request_for_row(b'{"text": null}', None)]))
    assert judge.is_denied(b'{"text": null}', None)
    assert not judge.is_denied(b'{"text": null, "id": 7}', None)


@pytest.mark.parametrize(
    ("content", "columns", "is_denied"),
    [
        ("\ufeffhttps://jane.example/me".encode("utf-16"), None, True),
        ("https://jane.example/me".encode("utf-16-le"), None, True),
        (b"GET / HTTP/1.1\r\nHost: jane.example\r\n\r\n", None, True),
        (b"\xff\xfe jane.example \xff", None, True),
        (b"janet.example", None, False),
        (b"", None, False),
        (None, None, False),
        (b"", '{"a": [{"b": "http://jane.example"}]}', True),
        (b"text", '{"a": null}', False),
        (b"text", '{"meta": {"author": [{"name": "Jane Doe"}]}}', True),
        (b"'" * 100_000, None, False),
        (b"\\u00" * 50_000, None, False),
        (b"\\u0061" * 50_000, None, False),
        (b'{"a":' * 3000, None, False),
        (b'"' * 100_000, None, False),
        (b'{"author": "' + b"\\" * 50_001, None, False),
        (b'"author":' * 10_000, None, False),
        (b"a." * 100_000, None, False),
        (b"\0" * 100_000, None, False),
    ],
)
def test_rows_of_any_bytes_are_matched(content, columns, is_denied):
    lines = [
        "jane.example",
        '{"column": "author", "value": "Jane Doe"}',
        '{"letters_sha256": "%s"}' % ("0" * 64),
    ]
    judge = RowJudge(DenyList(request for line in lines for request in requests_of(line)))
    assert judge.is_denied(content, columns) is is_denied
