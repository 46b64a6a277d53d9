"""Test removal requests in mixtures: no file contains a removed text, as characters or as token ids."""

import os
import shutil
import signal
from collections import Counter

import pytest
from killed_child import run_and_kill
from leaks import files_with
from small_corpus import build_here, prose, table_of
from small_mixtures import FORMATS, corpus_of, mixed_in, mixing_of, mixture_file, run_here
from typer.testing import CliRunner

from zyda_flows.flows.command.cli import app
from zyda_flows.tasks.erasure.certified_removal import finish, new_lines, promise
from zyda_flows.tasks.erasure.dependents import Search
from zyda_flows.tasks.erasure.removal_request import RequestReader
from zyda_flows.tasks.erasure.requested_documents import find_documents
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.lookup.verify_and_clean import orphans_of, remove
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.mixing.mixture_certificate import Forgetting
from zyda_flows.tasks.mixing.planning import inputs_of
from zyda_flows.tasks.mixing.removal import forget, planned_certificate
from zyda_flows.tasks.storage.claims import forgetting, reading
from zyda_flows.tasks.storage.folder import Folder

SHORT = prose("small g3", 41)  # the text that `corpus_of` writes
LONG = prose("small g12", 104)


def forget_here(corpus, *ids):
    """Run the steps of `zyda forget` for document ids in this process."""
    recipe, reader = corpus.load(), RequestReader()
    reader.add_ids(map(str, ids))
    request = reader.request(())
    documents = find_documents(recipe, request, lambda function, items: [*map(function, items)])
    certificate = promise(recipe, request, documents, Search(), new_lines(recipe, request, documents))
    build_here(corpus.load())
    remove(corpus.load(), orphans_of(corpus.load()))
    return finish(corpus.load(), certificate)


def ids_of(corpus, *texts):
    rows = [row for source in ("good", "other") for row in table_of(corpus.load(), source)]
    return [row["doc_id"] for row in rows if row["text"] in texts]


@pytest.fixture(scope="module")
def built(tmp_path_factory, compiled):
    """Return a mixture of two corpora, one of which removed documents afterwards.

    The mixture has two finished versions and an interrupted version.
    """
    folder = tmp_path_factory.mktemp("made")
    corpora = [corpus_of(folder / name, name, documents=15) for name in ("small", "second")]
    parts = [{"name": name, "corpus": name, "weight": 1} for name in ("small", "second")]
    options = {"parts": parts, "formats": FORMATS, "budget": {"epochs": 1}, "packed": 64, "max_epochs": 9}
    mixed_in(mixture_file(folder, corpora, **options, seed=1))
    path = mixture_file(folder, corpora, **options, seed=2)
    mixed_in(path)

    def interrupted(jobs, step):
        if step == "files of ids":
            jobs[0]()
            raise KeyboardInterrupt
        return run_here(jobs, step)

    with pytest.raises(KeyboardInterrupt):
        mixing_of(mixture_file(folder, corpora, **options, seed=3), interrupted).mix()
    path = mixture_file(folder, corpora, **options, seed=2)
    requested_ids = ids_of(corpora[0], SHORT, LONG)
    forget_here(corpora[0], *requested_ids)
    return folder, path, corpora, requested_ids


@pytest.fixture
def mixture(built, tmp_path):
    """Return the folder of a copy of the mixture of `built`, and its YAML file."""
    folder, path, *_ = built
    shutil.copytree(folder / "mixed", tmp_path / "mixed")
    text = path.read_text().replace(str(folder / "mixed"), str(tmp_path / "mixed"))
    (tmp_path / "mixture.yaml").write_text(text)
    return tmp_path / "mixed/mixture", tmp_path / "mixture.yaml"


def files_in(place, below=""):
    return {str(file.relative_to(place)) for file in (place / below).rglob("*") if file.is_file()}


def place_of(file):
    """Return the folder under which the certificate counts a file: a work stage or an interrupted mix."""
    return "/".join(file.split("/")[: 2 if file.startswith("work/") and file.count("/") > 1 else 1])


def certificate_in(place):
    (path,) = (place / "forgotten").iterdir()
    return Forgetting.model_validate_json(path.read_bytes())


def forget_in(path):
    """Run the steps of `zyda mix --forget` in this process."""
    inputs = inputs_of(load_mixture(str(path)))
    return forget(inputs, planned_certificate(inputs), run_here)


def run_zyda(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.slow
def test_mixture_removes_requested_documents_in_every_format(built, mixture):
    _, _, _, requested_ids = built
    place, path = mixture
    kinds = {file.split("/")[1] for file in files_with(SHORT, place) if not file.startswith("work")}
    assert kinds >= {*FORMATS}
    work = {file.split("/")[1] for file in files_with(LONG, place) if file.startswith("work")}
    assert work >= {"tokens", "segments"}
    files_before = files_in(place)

    planned = run_zyda("mix", path, "--forget", "--plan")
    assert planned.exit_code == 0, planned.output
    assert "corpus small has removed 2 documents on request" in planned.output
    assert planned.output.count("removed documents in it: 2 of small") == 2
    as_json = run_zyda("mix", path, "--forget", "--plan", "--format", "json")
    promise = Forgetting.model_validate_json(as_json.stdout)
    assert [version.documents for version in promise.versions] == [{"small": 2}] * 2
    assert files_in(place) == files_before
    unconfirmed = run_zyda("mix", path, "--forget")
    assert unconfirmed.exit_code == 1
    assert files_in(place) == files_before

    confirmed = run_zyda("mix", path, "--forget", "--yes", "--format", "json")
    assert confirmed.exit_code == 0, confirmed.output
    assert Forgetting.model_validate_json(confirmed.stdout) == certificate_in(place)
    assert files_with(SHORT, place) == files_with(LONG, place) == []
    versions = {file.name for file in place.iterdir()} - {"work", "forgotten", "mixture.json", ".scratch"}
    certificate = certificate_in(place)
    assert versions == {certificate.place}
    assert {(entry.label, entry.denied) for entry in certificate.corpora} == {("small", 2), ("second", 0)}
    assert [entry.documents for entry in certificate.versions] == [{"small": 2}] * 2
    assert all(sorted(entry.ids["small"]) == sorted(requested_ids) for entry in certificate.versions)
    listed_files = {file.path for entry in certificate.versions for file in entry.files}
    places = {entry.path: entry.files for entry in certificate.work}
    assert {*places} > {"work/tokens", "work/segments", "work/chosen"}
    removed = files_before - files_in(place)
    counted = Counter(place_of(file) for file in removed - listed_files)
    assert listed_files <= removed
    assert counted == places
    # The documents of the other corpus are still in the mixture, and no tokens are encoded again.
    assert files_with(prose("second g3", 41), place)
    tokens = {place / file: (place / file).stat().st_mtime_ns for file in files_in(place, "work/tokens")}
    assert tokens
    mixed_in(path)
    assert all(file.stat().st_mtime_ns == modified for file, modified in tokens.items())


def test_forget_and_mix_of_one_corpus_exclude_each_other(built, mixture):
    _, _, corpora, _ = built
    folder, (place, path) = corpora[1].load().folder, mixture
    files_before = files_in(place)
    with forgetting(folder, "zyda forget"):
        for options in ([], ["--plan"], ["--forget", "--yes"]):
            refused = run_zyda("mix", path, *options)
            assert refused.exit_code == 1
            assert f"{folder.url}: zyda forget (process {os.getpid()} on " in str(refused.exception)
        second_request = run_zyda("forget", corpora[1].path, "--ids", "1", "--dry-run")
        assert "is at work there; start again when it has ended" in str(second_request.exception)
    assert files_in(place) == files_before
    with reading([folder], "zyda mix mixture"):
        refused = run_zyda("forget", corpora[1].path, "--ids", "1", "--yes")
        assert f"{folder.url}: zyda mix mixture (process {os.getpid()} on " in str(refused.exception)


def test_failed_mix_keeps_the_old_versions_until_it_succeeds(built, mixture):
    place, path = mixture
    text, files_before = path.read_text(), files_in(place)
    path.write_text(text.replace("epochs: 1", "tokens: 1e9"))
    with pytest.raises(BadRecipe, match="its weight requires 500,000,000 tokens"):
        forget_in(path)
    assert files_before <= files_in(place)
    assert certificate_in(place).finished_at is None
    path.write_text(text)
    assert forget_in(path) == certificate_in(place)
    assert certificate_in(place).finished_at
    assert files_with(SHORT, place) == []


def test_version_finished_by_another_mix_is_removed_from_a_store_and_listed(built, tmp_path):
    folder, path, *_ = built
    store, text = f"memory://{tmp_path.name}", path.read_text()
    files = [tmp_path / f"{seed}.yaml" for seed in (2, 4)]
    for file in files:
        content = text.replace(str(folder / "mixed"), store).replace("seed: 2", f"seed: {file.stem}")
        file.write_text(content)
    promise = planned_certificate(inputs_of(load_mixture(str(files[0]))))
    mixed = mixing_of(files[1]).mix()
    finished = forget(inputs_of(load_mixture(str(files[0]))), promise, run_here)
    assert promise.versions == ()
    assert [version.place for version in finished.versions] == [mixed.place]
    remaining = Folder(f"{store}/mixture").files("")
    places = {path.partition("/")[0] for path in remaining}
    assert places == {finished.place, "work", "forgotten", "mixture.json"}
    assert {path.split("/")[1] for path in remaining if path.startswith("work/")} == {
        "tokens", *(path.split("/")[1] for path in remaining if path.startswith("work/tokenizer-"))
    }  # fmt: skip


def test_interrupted_request_of_a_corpus_refuses_the_removal_in_a_mixture(built, mixture):
    _, _, corpora, _ = built
    recipe, (_, path) = corpora[1].load(), mixture
    (doc_id,) = ids_of(corpora[1], prose("second g3", 41))
    reader = RequestReader()
    reader.add_ids([str(doc_id)])
    found_documents = find_documents(
        recipe, reader.request(()), lambda function, items: [*map(function, items)]
    )
    certificate = promise(
        recipe,
        reader.request(()),
        found_documents,
        Search(),
        new_lines(recipe, reader.request(()), found_documents),
    )
    try:
        refused = run_zyda("mix", path, "--forget", "--yes")
        assert f"{recipe.folder.url}: a removal request was interrupted" in str(refused.exception)
    finally:
        for file in (certificate.path, certificate.deny_list):
            recipe.folder.remove(file)


MOMENTS = {
    "before the certificate": ("write", "forgotten/", 1),
    "while it encodes": ("write", "work/tokens", 1),
    "while it writes files": ("put", "", 40),
    "before the first removal": ("delete", "", 3),
    "while it removes": ("remove", "work/", 10),
    "before the certificate is finished": ("write", "forgotten/", 2),
}


@pytest.mark.slow
def test_killed_removal_is_finished_by_the_next_call_with_the_same_certificate(built, tmp_path):
    folder, path, *_ = built

    def copy_mixture(name):
        shutil.copytree(folder / "mixed", tmp_path / name)
        file = tmp_path / f"{name}.yaml"
        file.write_text(path.read_text().replace(str(folder / "mixed"), str(tmp_path / name)))
        return tmp_path / name / "mixture", file

    def content(place):
        return certificate_in(place).model_dump(exclude={"asked_at", "finished_at"})

    place, file = copy_mixture("undisturbed")
    forget_in(file)
    expected, files = (
        content(place),
        {file_name for file_name in files_in(place) if not file_name.startswith("forgotten/")},
    )
    for number, (name, moment) in enumerate(MOMENTS.items()):
        place, file = copy_mixture(f"killed-{number}")
        assert run_and_kill(moment, forget_in, file) == -signal.SIGKILL, name
        forget_in(file)
        assert content(place) == expected, name
        assert {
            file_name for file_name in files_in(place) if not file_name.startswith("forgotten/")
        } == files, name
        assert files_with(SHORT, place) == files_with(LONG, place) == [], name
