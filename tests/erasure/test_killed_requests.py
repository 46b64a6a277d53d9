"""A killed request is finished by the next call, with the certificate of an undisturbed request."""

import re
import shutil
import signal

import pytest
from killed_child import run_and_kill
from leaks import files_with
from small_corpus import Corpus, build_here, edited, prose, rows, write_rows

from zyda_flows.tasks.erasure.certified_removal import finish, new_lines, promise
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.erasure.removal_certificate import unfinished_certificates
from zyda_flows.tasks.erasure.removal_request import RequestReader
from zyda_flows.tasks.erasure.requested_documents import find_documents
from zyda_flows.tasks.lookup.verify_and_clean import orphans_of, remove
from zyda_flows.tasks.recipe.loading import load_recipe

ASKED = prose("asked about")
MOMENTS = {
    "before anything is promised": ("write", "denied/", 1),
    "while it ingests": ("put", "work/ingest", 1),
    "while it deduplicates": ("put", "work/clusters", 1),
    "before it is published": ("replace_folder", "", 1),
    "while it removes what earlier builds left": ("delete", "work/", 5),
    "before the certificate is finished": ("write", "forgotten/", 2),
}
TIMES = {"asked_at", "finished_at", "deny_list", "list_sha256", "before", "after"}


def in_turn(function, items):
    return [function(item) for item in items]


def forget_or_finish(path):
    """Run the steps of `zyda forget` in this process, or finish an interrupted request."""
    recipe, begun = load_recipe(path), unfinished_certificates(load_recipe(path).folder)
    if not begun:
        reader = RequestReader()
        reader.add_columns(["name=asked"])
        removal_request = reader.request(())
        documents = find_documents(recipe, removal_request, in_turn)
        begun = [
            promise(
                recipe, removal_request, documents, Search(), new_lines(recipe, removal_request, documents)
            )
        ]
    recipe = load_recipe(path)
    build_here(recipe)
    remove(recipe, orphans_of(recipe))
    (certificate,) = [finish(recipe, promised) for promised in begun]
    return certificate


def without_times(certificate):
    """Return a certificate without times, and without the digests of files that contain times."""
    content = certificate.model_dump(exclude=TIMES)
    for name in ("removed_files", "new_files"):
        content[name] = sorted(re.sub(r"files-[0-9a-f]{8}", "files", file["path"]) for file in content[name])
    return content


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, compiled):
    """Return a corpus with a document, a near-duplicate of it, and a removed duplicate of that."""
    corpus = Corpus(tmp_path_factory.mktemp("corpus"))
    write_rows(corpus.folder / "in/a.jsonl", rows(asked=ASKED, kept=prose("kept")))
    write_rows(corpus.folder / "in/b.jsonl", rows(copy=ASKED, alike=edited(ASKED), other=prose("other")))
    sources = [{"name": name, "files": str(corpus.folder / f"in/{name}.jsonl")} for name in ("a", "b")]
    corpus.recipe |= {"name": "mine", "sources": sources}
    build_here(corpus.load())
    return corpus


def copied(corpus, folder):
    """Copy a built corpus, have a build find it complete in its new place, and return the path of its recipe."""
    shutil.copytree(corpus.folder / "out", folder / "out")
    other = Corpus(folder)
    other.recipe = {**corpus.recipe, "storage": str(folder / "out")}
    build_here(other.load())
    return str(other.path)


@pytest.mark.slow
def test_certificate_after_an_interruption_equals_an_undisturbed_certificate(corpus, tmp_path):
    expected = without_times(forget_or_finish(copied(corpus, tmp_path / "undisturbed")))
    assert [of["documents"] for of in expected["gone"]] == [1, 2]
    for number, (name, moment) in enumerate(MOMENTS.items()):
        path = copied(corpus, tmp_path / str(number))
        assert run_and_kill(moment, forget_or_finish, path) == -signal.SIGKILL, name
        certificate = forget_or_finish(path)
        assert without_times(certificate) == expected | {"corpus": "mine"}, name
        assert files_with(ASKED, tmp_path / str(number) / "out") == [], name
        assert not unfinished_certificates(load_recipe(path).folder)
