"""Test `zyda look`: the sampled documents, inert display of hostile texts, and added judgements."""

import json
import re
import socket
import subprocess
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from browser import new_page, taken_over
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_HOME,
    PREFECT_SERVER_API_AUTH_STRING,
    temporary_settings,
)
from small_corpus import (
    COMMAND,
    Corpus,
    build_here,
    edited,
    prose,
    rows,
    table_of,
    write_rows,
    zyda,
    zyda_here,
)

from zyda_flows.flows.command.look import serve_page
from zyda_flows.flows.reporting.look_page import look_page, sample_as_json
from zyda_flows.flows.server.login import Api, save_api
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.lookup.document_texts import text_of
from zyda_flows.tasks.lookup.judgements import (
    Judgement,
    Review,
    load_reviews,
    rates_of,
)
from zyda_flows.tasks.lookup.samples import SampleOptions, sample_of

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<svg onload=\"document.title='owned'\"></svg> \u202e \u2028 \x00 {{7*7}} ]]> --> <!-- \" ' ` ${document.title='owned'} "
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Return a published corpus with many duplicates, some of them hostile, and documents removed by a rule."""
    corpus = Corpus(tmp_path_factory.mktemp("look"))
    texts = {f"h{i}": f"{HOSTILE} {prose(f'hostile {i}')}" for i in range(12)}
    write_rows(corpus.folder / "in/best-7.parquet", rows(**texts))
    copies = {name: edited(text, 2) for name, text in texts.items()}
    write_rows(corpus.folder / "in/worst-7.arrow", rows(**copies, tiny="tiny", small="small"))
    corpus.recipe["dedup"] = {"scope": "global"}
    corpus.recipe["documents"] = [{"filter": {"zyda1": {"length": [20, None], "mean_word_length": None}}}]
    build_here(corpus.load())
    return corpus


def sample(corpus, **options):
    return sample_of(corpus.load(), SampleOptions(**options))


def ids(items):
    return [(item.doc_id, item.other) for item in items]


def test_samples_match_the_options_and_are_equal_for_equal_seeds(corpus):
    recipe = corpus.load()
    removed = {row["doc_id"]: row for row in table_of(recipe, "removed")}
    items = sample(corpus, items=1000)
    assert {item.doc_id: item.other for item in items} == {
        i: row["kept_doc_id"] for i, row in removed.items()
    }
    first_items = sample(corpus, items=5)
    assert ids(first_items) == ids(items)[:5] == ids(sample(corpus, items=5))
    assert ids(first_items) != ids(sample(corpus, items=5, seed=2))
    rules = sample(corpus, stage="rules", items=50)
    assert (
        {item.doc_id for item in rules}
        == {i for i, row in removed.items() if row["stage"] == "rules"}
        != set()
    )
    assert all(item.other is None and item.reason for item in rules)
    assert {item.source for item in sample(corpus, source="worst", items=50)} == {"worst"}
    kept_ids = {row["doc_id"] for source in recipe.sources for row in table_of(recipe, source.name)}
    assert {item.doc_id for item in sample(corpus, what="kept", items=1000)} == kept_ids
    clusters = {row["cluster_id"] for row in table_of(recipe, "clusters")}
    members = {(row["doc_id"], row["cluster_id"]) for row in table_of(recipe, "clusters")}
    cluster_items = sample(corpus, what="clusters", items=1000)
    assert {item.doc_id for item in cluster_items} == clusters
    assert all((item.other, item.doc_id) in members for item in cluster_items)


def test_clusters_of_a_later_round_can_be_sampled(corpus, tmp_path):
    twice = corpus.elsewhere(tmp_path)
    twice.recipe["dedup"] = [{"exact": "text", "scope": "global"}, {"scope": "global"}]
    recipe = twice.load()
    build_here(recipe)
    for number, place in ((1, "clusters"), (2, "clusters2")):
        items = sample_of(recipe, SampleOptions(what="clusters", round=number, items=1000))
        assert (
            {item.doc_id for item in items} == {row["cluster_id"] for row in table_of(recipe, place)} != set()
        )
    with pytest.raises(BadInput, match="--round 3: no clusters of this round are published"):
        sample_of(recipe, SampleOptions(what="clusters", round=3))
    with pytest.raises(BadInput, match="--round 2"):
        sample_of(recipe, SampleOptions(what="kept", round=2))


@pytest.mark.slow
def test_every_document_is_equally_likely_to_be_sampled(corpus):
    counts = dict.fromkeys((item.doc_id for item in sample(corpus, items=1000)), 0)
    for seed in range(200):
        for item in sampled_ids(corpus, seed):
            counts[item] += 1
    expected = 200 * 4 / len(counts)
    assert all(abs(count - expected) < 4 * expected**0.5 + 5 for count in counts.values())


def sampled_ids(corpus, seed):
    from zyda_flows.tasks.lookup.samples import removed_rows

    return [
        row["doc_id"]
        for row in removed_rows(PublishedCorpus.of(corpus.load()), SampleOptions(items=4, seed=seed))
    ]


def test_texts_equal_the_sources_with_differences_marked(corpus):
    reader = DocumentReader.of(corpus.load())
    for item in sample(corpus, items=1000):
        text = reader.text(item.doc_id)
        assert text_of(reader, item.doc_id) == text
        assert "".join(span.text for span in item.left) == text
        if item.other is not None:
            other = reader.text(item.other)
            assert "".join(span.text for span in item.right) == other
            equal_texts = [
                "".join(span.text for span in side if span.is_same) for side in (item.left, item.right)
            ]
            assert equal_texts[0] == equal_texts[1]
            assert (
                all(span.is_same for span in item.left)
                == all(span.is_same for span in item.right)
                == (text == other)
            )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"stage": "nothing"}, "--stage nothing: documents were removed by rules, removals, filter"),
        ({"reason": "nothing"}, "--reason nothing: documents were removed for"),
        ({"source": "nobody"}, "--source nobody: the corpus has the sources best, middle, worst"),
        ({"what": "kept", "stage": "rules"}, "choose removed documents, not kept"),
        ({"stage": "filter", "source": "best"}, "no document matches: removed, stage filter"),
    ],
)
def test_options_without_a_matching_document_raise(corpus, options, fault):
    with pytest.raises(BadInput, match=fault):
        sample(corpus, **options)


@pytest.mark.slow
def test_page_in_a_file_is_inert_and_its_judgements_can_be_added(corpus, page, tmp_path):
    file = tmp_path / "look.html"
    completed = zyda_here("look", str(corpus.path), "--items", "40", "--to", str(file), "--as", "cat")
    assert completed.returncode == 0, completed.stderr
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"file://{file}")
    total = page.locator("#where").inner_text()
    count = int(re.search(r"of (\d+)", total)[1])
    hostile_texts = 0
    for number in range(count):
        assert page.title() == "small: looking"
        assert page.locator("#texts img, #texts svg, #texts script").count() == 0
        hostile_texts += HOSTILE[:30] in page.locator("pre").first.inner_text()
        page.keyboard.press("r" if number % 4 else "w")
    texts = ["".join(span.text for span in item.left) for item in sample(corpus, items=40)]
    assert hostile_texts == sum(HOSTILE[:30] in text for text in texts) >= 10
    assert page.title() == "small: looking"
    assert requests == [f"file://{file}"]
    expected = [
        cell for row in page.locator("tr").all()[1:] for cell in [row.locator("td").all_inner_texts()]
    ]
    with page.expect_download() as download:
        page.locator("#save").click()
    saved = tmp_path / "looked.json"
    download.value.save_as(saved)
    assert {judgement["doc_id"] for judgement in json.loads(saved.read_text())["judgements"]} == {
        row["doc_id"] for row in table_of(corpus.load(), "removed")
    }
    reviews_before = load_reviews(corpus.load().folder)
    added = zyda_here("look", str(corpus.path), "--add", str(saved))
    assert added.returncode == 0, added.stderr
    (review,) = [stored for stored in load_reviews(corpus.load().folder) if stored not in reviews_before]
    assert review.who == "cat"
    rates = {(rate.by, rate.source): rate for rate in rates_of([review])}
    assert {tuple(row[:4]) for row in expected} == {
        (by, source, str(rate.right), str(rate.judged)) for (by, source), rate in rates.items()
    }
    for row in expected:
        low, high = rates[row[0], row[1]].interval
        assert row[5] == f"{100 * low:.1f} % to {100 * high:.1f} %"


def test_judgements_of_another_corpus_are_not_added(corpus, tmp_path):
    file = tmp_path / "looked.json"
    (document,) = sample(corpus, items=1)
    for doc_id, source in ((document.doc_id, "nosuch"), (2**60, "best")):
        judgement = Judgement(doc_id=doc_id, source=source, is_right=True, at="now")
        file.write_text(
            Review(who="x", began="now", options=SampleOptions(), judgements=(judgement,)).model_dump_json()
        )
        completed = zyda_here("look", str(corpus.path), "--add", str(file))
        assert completed.returncode == 1
        assert completed.stderr.count("\n") == 1
        assert str(doc_id) in completed.stderr


def test_judgements_of_several_people_on_a_page_are_all_stored(corpus, tmp_path):
    file = tmp_path / "looked.json"
    (document,) = sample(corpus, items=1)
    for who, is_right in (("eve", True), ("fay", False)):
        judgement = Judgement(doc_id=document.doc_id, source=document.source, is_right=is_right, at="now")
        review = Review(
            who="writer", began="2026-05-05T00:00:00Z", options=SampleOptions(), judgements=(judgement,)
        )
        file.write_text(review.model_dump_json(exclude={"added"}))
        for _ in range(2):  # adding a file twice changes nothing
            assert zyda_here("look", str(corpus.path), "--add", str(file), "--as", who).returncode == 0
    reviews = [
        judgement
        for judgement in load_reviews(corpus.load().folder)
        if judgement.began == "2026-05-05T00:00:00Z"
    ]
    assert [(judgement.who, judgement.judgements[0].is_right) for judgement in reviews] == [
        ("eve", True),
        ("fay", False),
    ]


def test_occupied_port_is_reported_without_a_link(corpus):
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        completed = zyda("look", str(corpus.path), "--port", str(occupied.getsockname()[1]))
    assert completed.returncode == 1
    assert "the port is in use; choose another" in completed.stderr
    assert not completed.stdout


def test_each_look_has_a_new_login(corpus, monkeypatch, capsys, tmp_path):
    lasting = Api(url="https://127.0.0.1:1/api", login="zyda:of the stack")
    (tmp_path / "zyda").mkdir()
    save_api(lasting, tmp_path / "zyda")
    monkeypatch.setattr("zyda_flows.flows.server.look_server.serve", lambda *_: None)
    review, tokens = Review(who="x", began="now", options=SampleOptions()), set()
    with temporary_settings(
        {
            PREFECT_HOME: tmp_path,
            PREFECT_SERVER_API_AUTH_STRING: lasting.login,
            PREFECT_API_AUTH_STRING: lasting.login,
        }
    ):
        for _ in range(2):
            serve_page(corpus.load(), sample(corpus, items=1), review, 0)
            tokens.add(re.search("/#(.+)", capsys.readouterr().out + capsys.readouterr().err)[1])
    assert len(tokens | {lasting.token}) == 3
    assert all(len(token) >= 43 for token in tokens)


@contextmanager
def serve(corpus, *more):
    """Serve a sample with `zyda look`; yield the link and the process."""
    process = subprocess.Popen(
        [*COMMAND, "look", str(corpus.path), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    killer = threading.Timer(120, process.kill)
    killer.start()
    try:
        line = process.stdout.readline()
        yield re.search(r"http://\S+", line)[0], process
    finally:
        killer.cancel()
        process.kill()
        process.wait()


@pytest.mark.slow
def test_served_page_requires_the_login_and_stores_judgements(corpus, browser):
    with serve(corpus, "--items", "6", "--as", "dora", "--seed", "7") as (link, process):
        address, token = link.split("/#")
        assert address.startswith("http://127.0.0.1:")
        shell = httpx.get(f"{address}/")
        assert prose("hostile 1")[:20] not in shell.text
        for headers in ({}, {"Authorization": "Basic eA=="}):
            assert httpx.get(f"{address}/sample", headers=headers).status_code == 401
            assert httpx.post(f"{address}/judgement", headers=headers, content=b"{}").status_code == 401
        credentials = {"Authorization": f"Basic {token}"}
        unknown = Judgement(doc_id=5, source="best", is_right=True, at="now").model_dump_json()
        for content in (b"", b"{}", unknown.encode()):
            assert httpx.post(f"{address}/judgement", headers=credentials, content=content).status_code == 422
        assert (
            httpx.post(f"{address}/judgement", headers=credentials, content=b"x" * 20_000).status_code == 413
        )
        page = new_page(browser)
        page.goto(f"{address}/")
        page.get_by_text("Not signed in").wait_for()
        page.goto("about:blank")
        page.goto(link)
        for number in range(6):
            page.get_by_text(f"{number + 1} of 6, {number} judged").wait_for()
            page.keyboard.press("w" if number == 2 else "r")
        page.locator("table").wait_for()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("w")
        page.locator("table").wait_for()
        assert page.title() == "small: looking"
        assert (page.url, page.context.cookies()) == (f"{address}/", [])
        process.send_signal(2)
        assert process.communicate(timeout=60)[1] == (
            "zyda: interrupted; what was said is kept; zyda look RECIPE --results prints it\n"
        )
        with taken_over(urlsplit(address).port) as received:
            page.get_by_text("zyda look has ended").wait_for()
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("r")
            page.get_by_text("It was not kept").wait_for()
            assert received == []
            page.reload()
            assert token not in str(received)
            assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
    results = zyda_here("look", str(corpus.path), "--results")
    assert "removals: duplicate" in " ".join(results.stdout.split())
    (review,) = [stored for stored in load_reviews(corpus.load().folder) if stored.who == "dora"]
    assert len(review.judgements) == 7
    rates = rates_of([review])
    assert sum(rate.judged for rate in rates if rate.source == "all") == 6
    assert sum(rate.right for rate in rates if rate.source == "all") == 4
    assert b"hostile" not in corpus.load().folder.read(review.path)


def test_texts_cannot_close_an_element_of_the_page(corpus):
    items = sample(corpus, items=40)
    review = Review(who="x", began="now", options=SampleOptions())
    page = look_page("a<b", sample_as_json(items, review, is_served=False))
    assert page.count("<script") == page.count("</script>") == 2
    assert "a&lt;b" in page
