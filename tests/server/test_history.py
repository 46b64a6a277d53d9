"""After a request Prefect keeps no value of a removed document, in whichever page of its database."""

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

PERSISTED_SECONDS = 8  # in which a server writes the events that it has taken

NAME, LICENCE = "Janequiris Doequiris", "Doequiris house licence"


@pytest.fixture
def named(tmp_path):
    """Give a corpus in which an author is a component, and a licence that no list has."""
    corpus = Corpus(tmp_path)
    pages = [{"author": f"a{i}", "text": prose(f"page {i}")} for i in range(6)]
    pages[4]["author"] = NAME
    write_rows(tmp_path / "in/pages.jsonl", pages)
    licensed = [{"licence": one, "text": prose(f"l{i}")} for i, one in enumerate(["MIT", LICENCE, "MIT"])]
    write_rows(tmp_path / "in/licensed.jsonl", licensed)
    keeps = [{"license_filter": {"column": "licence", "keep": ["MIT"]}}]
    corpus.recipe |= {
        "name": "named",
        "sources": [
            {"name": "pages", "files": "in/pages.jsonl", "component": {"column": "author"}},
            {"name": "licensed", "files": "in/licensed.jsonl", "documents": keeps},
        ],
    }
    return corpus


def named_in(home):
    """Return the files of Prefect's home that have the name: rows of tables, and their bytes as they are."""
    found = []
    for path in home.glob("prefect.db*"):
        values, content = decoded(path)
        said = [*texts_in(values), *texts_in(content), path.read_bytes().decode(errors="replace")]
        if any("doequiris" in one.lower() for one in said):
            found.append(path.name)
    return found


@pytest.mark.slow
def test_prefect_keeps_no_value_of_a_removed_document(named, build, server, request):
    if request.config.getoption("postgres"):
        pytest.skip("the database is no file")
    home = database().parent
    path = named.write()
    build(path)
    time.sleep(PERSISTED_SECONDS)
    assert named_in(home)
    recipe, asking = named.load(), RequestReader()
    asking.add_columns([f"author={NAME}", f"licence={LICENCE}"])
    asked = asking.request(())
    found = find_documents(recipe, asked, lambda function, items: [*map(function, items)])
    certificate = promise(recipe, asked, found, Search(), new_lines(recipe, asked, found))
    build(path)
    forget_history(recipe)
    assert named_in(home) == []
    time.sleep(PERSISTED_SECONDS)
    assert named_in(home) == []
    assert finish(named.load(), certificate).finished_at
