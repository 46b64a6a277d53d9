"""After a removal request, no page of Prefect's database contains a value of a removed document."""

import time

import pytest
from leaks import decoded, texts_in
from small_corpus import Corpus, prose, write_rows

from zyda_flows.flows.command.forget import forget_history
from zyda_flows.flows.server.history import database
from zyda_flows.tasks.erasure.certified_removal import finish, new_lines, promise
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.erasure.removal_request import RequestReader
from zyda_flows.tasks.erasure.requested_documents import find_documents

PERSISTED_SECONDS = 8  # a server writes received events within this time

NAME, LICENCE = "Janequiris Doequiris", "Doequiris house licence"


@pytest.fixture
def named(tmp_path):
    """Return a corpus with authors as components, and with a licence that is not kept."""
    corpus = Corpus(tmp_path)
    pages = [{"author": f"a{i}", "text": prose(f"page {i}")} for i in range(6)]
    pages[4]["author"] = NAME
    write_rows(tmp_path / "in/pages.jsonl", pages)
    licensed = [
        {"licence": licence, "text": prose(f"l{i}")} for i, licence in enumerate(["MIT", LICENCE, "MIT"])
    ]
    write_rows(tmp_path / "in/licensed.jsonl", licensed)
    steps = [{"license_filter": {"column": "licence", "keep": ["MIT"]}}]
    corpus.recipe |= {
        "name": "named",
        "sources": [
            {"name": "pages", "files": "in/pages.jsonl", "component": {"column": "author"}},
            {"name": "licensed", "files": "in/licensed.jsonl", "documents": steps},
        ],
    }
    return corpus


def named_in(home):
    """Return the database files in Prefect's home that contain the name, in rows of tables or in raw bytes."""
    names = []
    for path in home.glob("prefect.db*"):
        values, content = decoded(path)
        texts = [*texts_in(values), *texts_in(content), path.read_bytes().decode(errors="replace")]
        if any("doequiris" in text.lower() for text in texts):
            names.append(path.name)
    return names


@pytest.mark.slow
def test_prefect_keeps_no_value_of_a_removed_document(named, build, server, request):
    if request.config.getoption("postgres"):
        pytest.skip("the database is no file")
    home = database().parent
    path = named.write()
    build(path)
    time.sleep(PERSISTED_SECONDS)
    assert named_in(home)
    recipe, reader = named.load(), RequestReader()
    reader.add_columns([f"author={NAME}", f"licence={LICENCE}"])
    removal_request = reader.request(())
    documents = find_documents(recipe, removal_request, lambda function, items: [*map(function, items)])
    certificate = promise(
        recipe, removal_request, documents, Search(), new_lines(recipe, removal_request, documents)
    )
    build(path)
    forget_history(recipe)
    assert named_in(home) == []
    time.sleep(PERSISTED_SECONDS)
    assert named_in(home) == []
    assert finish(named.load(), certificate).finished_at
