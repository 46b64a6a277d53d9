"""A mixture forgets what its corpora were asked to remove: no file of it has the text, as characters or as ids."""

import os
import shutil
import signal
from collections import Counter

import pytest
from killed_child import run_and_kill
from leaks import files_with
from small_corpus import build_here, prose, table_of
from small_mixtures import corpus_of, mixed_in, mixing_of, mixture_file, run_here
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

FORMATS = ["megatron", "datatrove", "olmo", "torchtitan", "parquet", "text"]
ASKED = prose("small g3", 41)  # as `corpus_of` writes it
LONG = prose("small g12", 104)


def forget_here(corpus, *ids):
    """Do what `zyda forget` does for some ids, in this process."""
    recipe, asking = corpus.load(), RequestReader()
    asking.add_ids(map(str, ids))
    asked = asking.request(())
    found = find_documents(recipe, asked, lambda function, items: [*map(function, items)])
    certificate = promise(recipe, asked, found, Search(), new_lines(recipe, asked, found))
    build_here(corpus.load())
    remove(corpus.load(), orphans_of(corpus.load()))
    return finish(corpus.load(), certificate)


def ids_of(corpus, *texts):
    rows = [row for source in ("good", "other") for row in table_of(corpus.load(), source)]
    return [row["doc_id"] for row in rows if row["text"] in texts]


@pytest.fixture(scope="module")
def made(tmp_path_factory, compiled):
    """Give two corpora, a mixture of both in two versions and one that did not end, and one corpus that forgot."""
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
    asked = ids_of(corpora[0], ASKED, LONG)
    forget_here(corpora[0], *asked)
    return folder, path, corpora, asked


@pytest.fixture
def mixture(made, tmp_path):
    """Give the folder of a copy of that mixture, and the file that describes it."""
    folder, path, *_ = made
    shutil.copytree(folder / "mixed", tmp_path / "mixed")
    text = path.read_text().replace(str(folder / "mixed"), str(tmp_path / "mixed"))
    (tmp_path / "mixture.yaml").write_text(text)
    return tmp_path / "mixed/mixture", tmp_path / "mixture.yaml"


def files_in(place, below=""):
    return {str(file.relative_to(place)) for file in (place / below).rglob("*") if file.is_file()}


def place_of(file):
    """Return where the certificate counts a file: of a stage of the work folder, or of a mix that did not end."""
    return "/".join(file.split("/")[: 2 if file.startswith("work/") and file.count("/") > 1 else 1])


def certificate_in(place):
    (path,) = (place / "forgotten").iterdir()
    return Forgetting.model_validate_json(path.read_bytes())


def forgotten_in(path):
    """Do what `zyda mix --forget` does, in this process."""
    inputs = inputs_of(load_mixture(str(path)))
    return forget(inputs, planned_certificate(inputs), run_here)


def typed(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.slow
def test_mixture_forgets_in_every_format(made, mixture):
    _, _, _, asked = made
    place, path = mixture
    kinds = {file.split("/")[1] for file in files_with(ASKED, place) if not file.startswith("work")}
    assert kinds >= {*FORMATS}
    work = {file.split("/")[1] for file in files_with(LONG, place) if file.startswith("work")}
    assert work >= {"tokens", "segments"}
    before = files_in(place)

    planned = typed("mix", path, "--forget", "--plan")
    assert planned.exit_code == 0, planned.output
    assert "corpus small has removed 2 documents on request" in planned.output
    assert planned.output.count("removed documents in it: 2 of small") == 2
    assert files_in(place) == before
    refused = typed("mix", path, "--forget")
    assert refused.exit_code == 1
    assert files_in(place) == before

    done = typed("mix", path, "--forget", "--yes")
    assert done.exit_code == 0, done.output
    assert files_with(ASKED, place) == files_with(LONG, place) == []
    versions = {file.name for file in place.iterdir()} - {"work", "forgotten", "mixture.json", ".scratch"}
    certificate = certificate_in(place)
    assert versions == {certificate.place}
    assert {(one.label, one.denied) for one in certificate.corpora} == {("small", 2), ("second", 0)}
    assert [one.documents for one in certificate.versions] == [{"small": 2}] * 2
    assert all(sorted(one.ids["small"]) == sorted(asked) for one in certificate.versions)
    named = {file.path for one in certificate.versions for file in one.files}
    places = {one.path: one.files for one in certificate.work}
    assert {*places} > {"work/tokens", "work/segments", "work/chosen"}
    gone = before - files_in(place)
    counted = Counter(place_of(file) for file in gone - named)
    assert named <= gone
    assert counted == places
    # The other corpus is in it as before, and nothing is encoded again.
    assert files_with(prose("second g3", 41), place)
    tokens = {place / file: (place / file).stat().st_mtime_ns for file in files_in(place, "work/tokens")}
    assert tokens
    mixed_in(path)
    assert all(file.stat().st_mtime_ns == written for file, written in tokens.items())


def test_forget_and_mix_of_one_corpus_exclude_each_other(made, mixture):
    _, _, corpora, _ = made
    folder, (place, path) = corpora[1].load().folder, mixture
    before = files_in(place)
    with forgetting(folder, "zyda forget"):
        for options in ([], ["--plan"], ["--forget", "--yes"]):
            refused = typed("mix", path, *options)
            assert refused.exit_code == 1
            assert f"{folder.url}: zyda forget (process {os.getpid()} on " in str(refused.exception)
        again = typed("forget", corpora[1].path, "--ids", "1", "--dry-run")
        assert "is at work there; start again when it has ended" in str(again.exception)
    assert files_in(place) == before
    with reading([folder], "zyda mix mixture"):
        refused = typed("forget", corpora[1].path, "--ids", "1", "--yes")
        assert f"{folder.url}: zyda mix mixture (process {os.getpid()} on " in str(refused.exception)


def test_mixture_that_cannot_be_mixed_again_keeps_its_versions_until_it_can(made, mixture):
    place, path = mixture
    written, before = path.read_text(), files_in(place)
    path.write_text(written.replace("epochs: 1", "tokens: 1e9"))
    with pytest.raises(BadRecipe, match="its weight requires 500,000,000 tokens"):
        forgotten_in(path)
    assert before <= files_in(place)
    assert certificate_in(place).finished_at is None
    path.write_text(written)
    assert forgotten_in(path) == certificate_in(place)
    assert certificate_in(place).finished_at
    assert files_with(ASKED, place) == []


def test_version_that_another_mix_has_ended_meanwhile_is_removed_and_named_from_a_store(made, tmp_path):
    folder, path, *_ = made
    store, text = f"memory://{tmp_path.name}", path.read_text()
    files = [tmp_path / f"{seed}.yaml" for seed in (2, 4)]
    for file in files:
        content = text.replace(str(folder / "mixed"), store).replace("seed: 2", f"seed: {file.stem}")
        file.write_text(content)
    promise = planned_certificate(inputs_of(load_mixture(str(files[0]))))
    mixed = mixing_of(files[1]).mix()
    finished = forget(inputs_of(load_mixture(str(files[0]))), promise, run_here)
    assert promise.versions == ()
    assert [one.place for one in finished.versions] == [mixed.place]
    left = Folder(f"{store}/mixture").files("")
    places = {path.partition("/")[0] for path in left}
    assert places == {finished.place, "work", "forgotten", "mixture.json"}
    assert {path.split("/")[1] for path in left if path.startswith("work/")} == {
        "tokens", *(path.split("/")[1] for path in left if path.startswith("work/tokenizer-"))
    }  # fmt: skip


def test_request_that_is_not_finished_is_finished_before_a_mixture_forgets(made, mixture):
    _, _, corpora, _ = made
    recipe, (_, path) = corpora[1].load(), mixture
    (asked,) = ids_of(corpora[1], prose("second g3", 41))
    asking = RequestReader()
    asking.add_ids([str(asked)])
    found = find_documents(recipe, asking.request(()), lambda function, items: [*map(function, items)])
    begun = promise(recipe, asking.request(()), found, Search(), new_lines(recipe, asking.request(()), found))
    try:
        refused = typed("mix", path, "--forget", "--yes")
        assert f"{recipe.folder.url}: a removal request was interrupted" in str(refused.exception)
    finally:
        for one in (begun.path, begun.deny_list):
            recipe.folder.remove(one)


MOMENTS = {
    "before the certificate": ("write", "forgotten/", 1),
    "while it encodes": ("write", "work/tokens", 1),
    "while it writes files": ("put", "", 40),
    "before the first removal": ("delete", "", 3),
    "while it removes": ("remove", "work/", 10),
    "before the certificate is finished": ("write", "forgotten/", 2),
}


@pytest.mark.slow
def test_call_that_was_killed_is_finished_by_the_next_with_the_same_certificate(made, tmp_path):
    folder, path, *_ = made

    def copied(name):
        shutil.copytree(folder / "mixed", tmp_path / name)
        file = tmp_path / f"{name}.yaml"
        file.write_text(path.read_text().replace(str(folder / "mixed"), str(tmp_path / name)))
        return tmp_path / name / "mixture", file

    def said(place):
        return certificate_in(place).model_dump(exclude={"asked_at", "finished_at"})

    place, file = copied("undisturbed")
    forgotten_in(file)
    expected, files = said(place), {one for one in files_in(place) if not one.startswith("forgotten/")}
    for number, (name, moment) in enumerate(MOMENTS.items()):
        place, file = copied(f"killed-{number}")
        assert run_and_kill(moment, forgotten_in, file) == -signal.SIGKILL, name
        forgotten_in(file)
        assert said(place) == expected, name
        assert {one for one in files_in(place) if not one.startswith("forgotten/")} == files, name
        assert files_with(ASKED, place) == files_with(LONG, place) == [], name
