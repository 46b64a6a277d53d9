"""Removal requests for texts that are passages of documents, cut or kept as the only copy."""

from pathlib import Path

import pytest
from forgetting import asking, forget, in_turn
from leaks import files_with
from small_corpus import build_here, edited, prose, rows, table_of, write_rows

from zyda_flows.flows.dashboard.report_artifact import write_report
from zyda_flows.tasks.erasure.requested_documents import find_documents

SHARED = f"Ågot wrote: {prose('a shared passage', 60)}."
OWN = {name: prose(f"own {name}", 80) for name in ("b1", "m1", "m2", "w1", "w2", "w3")}
DOCUMENTS = {
    "best": {"b1": f"{OWN['b1']}\n\n{SHARED}\n\nend"},
    "middle": {"m1": f"{SHARED}\n\n{OWN['m1']}", "m2": OWN["m2"]},
    "worst": {
        "w1": f"naïve {OWN['w1']}.\n\n{SHARED}\n", "w2": f"x {SHARED} y", "w3": OWN["w3"],
        "like_m1": f"{SHARED}\n\n{edited(OWN['m1'])}",
    },
}  # fmt: skip
PARTS = [{"length": 100, "cut": "sentence", "drop_document": 0.8}, {"paragraphs": {"in_documents": 2}}]
WITH_IT = {"b1", "m1", "w1", "w2", "like_m1"}


@pytest.fixture
def sharing(corpus):
    """A corpus of three sources that share a passage, which the first document of the best source owns."""
    for source, documents in DOCUMENTS.items():
        write_rows(corpus.folder / f"in/{source}.jsonl", rows(**documents))
    sources = [{"name": source, "files": f"in/{source}.jsonl"} for source in DOCUMENTS]
    corpus.recipe |= {"sources": sources, "dedup": {"scope": "global"}, "passages": PARTS, "shard_mib": 0.001}
    return corpus


def texts_of(recipe):
    folder = Path(recipe.folder.path("published"))
    return {
        row["name"]: row["text"]
        for source in DOCUMENTS
        if (folder / source).exists()
        for row in table_of(recipe, source)
    }


def names_of(recipe, documents):
    lines = {source: [*texts] for source, texts in DOCUMENTS.items()}
    return {lines[document.source][document.row] for document in documents}


@pytest.mark.parametrize("text", [SHARED, SHARED.upper().replace(" ", "\r\n")])
def test_no_file_has_a_forgotten_passage(sharing, text):
    recipe = sharing.load()
    build_here(recipe)
    write_report(recipe)
    before = texts_of(recipe)
    assert SHARED in before["b1"]
    assert SHARED not in before["m1"] + before["w1"]
    assert {row["stage"] for row in table_of(recipe, "removed")} == {"cuts", "removals"}
    assert files_with(SHARED, sharing.folder / "out")
    found, recipe, certificate = forget(sharing, asking(texts=[text]))
    write_report(recipe)
    assert names_of(recipe, found.documents) == WITH_IT
    assert "a requested text is a passage of 4 longer texts; their whole documents match" in found.notes
    assert files_with(SHARED, sharing.folder / "out") == []
    assert texts_of(recipe) == {name: OWN[name] for name in ("m2", "w3")}
    assert certificate.came_in == 0


def test_exact_compares_characters(sharing):
    recipe = sharing.load()
    build_here(recipe)
    for text, names in ((SHARED, WITH_IT - {"like_m1"}), (SHARED.upper(), set())):
        found = find_documents(recipe, asking(texts=[text]), in_turn, alike=False)
        assert names_of(recipe, found.documents) == names


@pytest.mark.parametrize("text", ["Ågot wrote", prose("another passage", 60), f"{SHARED} {OWN['w3']}"])
def test_other_texts_are_no_passages(sharing, text):
    recipe = sharing.load()
    build_here(recipe)
    assert find_documents(recipe, asking(texts=[text]), in_turn).documents == []


def test_another_document_keeps_the_passage_of_a_forgotten_owner(sharing):
    recipe = sharing.load()
    build_here(recipe)
    (owner,) = table_of(recipe, "best")
    _, recipe, _ = forget(sharing, asking(ids=[str(owner["doc_id"])]))
    published = texts_of(recipe)
    assert published["m1"] == DOCUMENTS["middle"]["m1"]
    assert SHARED not in published["w1"]
    assert "b1" not in published
