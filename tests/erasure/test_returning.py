"""Requested documents stay removed after files, rules and recipes change.

Certificates count documents that return.
"""

import json

from forgetting import asking, forget, in_turn
from leaks import files_with
from small_corpus import build_here, edited, prose, table_of, write_rows

from zyda_flows.tasks.erasure.certified_removal import finish, new_lines, promise
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.erasure.requested_documents import find_documents
from zyda_flows.tasks.lookup.verify_and_clean import orphans_of, remove

RAW = "Too short,  by a  rule: Jane\u00a0Doe."


def texts_of(recipe, source="all"):
    return [row["text"] for row in table_of(recipe, source)]


def ids_of_removed(recipe):
    return [row["doc_id"] for row in table_of(recipe, "removed")]


def test_text_removed_by_a_rule_is_denied_after_its_file_and_the_rule_change(corpus):
    """Also if another step changes the text, and with `--exact`."""
    texts = [RAW, "short " + edited("x y"), prose("long"), prose("longer")]
    write_rows(corpus.folder / "in/all.jsonl", [{"text": text} for text in texts])
    sources = [{"name": "all", "files": "in/all.jsonl"}]
    strict = [{"clean": {"newlines": True, "unicode": True}}, {"filter": {"zyda1": {"length": 100}}}]
    for name, alike in (("near", True), ("exact", False)):
        recipe = corpus.load(name=name, sources=sources, documents=strict)
        build_here(recipe)
        request = asking(ids=[str(min(ids_of_removed(recipe)))])
        requested, recipe, _ = forget(
            corpus, request, alike=alike, name=name, sources=sources, documents=strict
        )
        assert [(document.row, document.stage, requested.notes) for document in requested.documents] == [
            (0, "rules", [])
        ]
        write_rows(corpus.folder / "in/all.jsonl", [{"text": text} for text in [*texts, prose("later")]])
        for steps in (strict[:1], []):
            recipe = corpus.load(name=name, sources=sources, documents=steps)
            build_here(recipe)
            assert len(texts_of(recipe)) == 4
            assert not [text for text in texts_of(recipe) if "Jane" in text]
        write_rows(corpus.folder / "in/all.jsonl", [{"text": text} for text in texts])


def test_missing_source_is_noted(corpus):
    write_rows(corpus.folder / "in/all.jsonl", [{"text": RAW}, {"text": prose("long")}])
    recipe = corpus.load(
        name="mine", sources=[{"name": "all", "files": "in/all.jsonl"}],
        documents=[{"filter": {"zyda1": {"length": 100}}}],
    )  # fmt: skip
    build_here(recipe)
    stored = corpus.folder / "in/all.jsonl"

    def without_file(function, items):
        stored.unlink(missing_ok=True)  # during the search
        return in_turn(function, items)

    requested = find_documents(recipe, asking(ids=[str(*ids_of_removed(recipe))]), without_file)
    assert len(requested.documents) == 1
    assert "all.jsonl: 1 of its rows can be matched by their ids alone" in requested.notes[0]


def test_certificate_counts_documents_published_again_without_new_files(corpus):
    text = prose("asked about")
    write_rows(corpus.folder / "in/first.jsonl", [{"text": text}, {"text": prose("other")}])
    write_rows(corpus.folder / "in/second.jsonl", [{"text": edited(text, 2)}])
    sources = [{"name": name, "files": f"in/{name}*.jsonl"} for name in ("first", "second")]
    recipe = corpus.load(name="mine", sources=sources)
    build_here(recipe)
    assert texts_of(recipe, "second") == []
    request = asking(texts=[text])
    requested = find_documents(recipe, request, in_turn, alike=False)
    certificate = promise(recipe, request, requested, Search(), new_lines(recipe, request, requested))
    # It is interrupted here, and the sources have other files when it is finished.
    write_rows(corpus.folder / "in/first-2.jsonl", [{"text": prose(f"new {i}")} for i in range(5)])
    with (corpus.folder / "in/first.jsonl").open("a") as file:
        file.write(json.dumps({"text": prose("appended")}) + "\n")
    recipe = corpus.load(name="mine", sources=sources)
    build_here(recipe)
    remove(recipe, orphans_of(recipe))
    finished = finish(recipe, certificate)
    assert finished.came_in == 1  # the edited copy
    assert finished.published_after == {"first": 7, "second": 1}
    assert finished.left == {}
    assert text not in texts_of(recipe, "first")
    assert files_with(prose("nothing of this"), corpus.folder / "out/mine") == []
