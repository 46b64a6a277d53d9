"""Test the list and the removal of versions of a mixture, and the storage that a plan names."""

import json
from collections import Counter

import pytest
from small_mixtures import all_files, corpus_of, mixed_in, mixing_of, mixture_file, run_here
from typer.testing import CliRunner

from zyda_flows.flows.command.cli import app
from zyda_flows.flows.command.mixture_plan import plan_as_json
from zyda_flows.flows.command.mixture_versions import remove_one_version
from zyda_flows.flows.command.status import lines_of_file
from zyda_flows.tasks.errors import BadRequest, Denied
from zyda_flows.tasks.mixing.leftovers import leftovers
from zyda_flows.tasks.mixing.removal import new_certificate
from zyda_flows.tasks.mixing.versions import remove_version, version_at, versions_of

OPTIONS = {"budget": {"tokens": 3000}}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, compiled):
    return corpus_of(tmp_path_factory.mktemp("corpus"), documents=15)


def invoke(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_versions_are_listed_and_removed(corpus, tmp_path):
    _, older = mixed_in(mixture_file(tmp_path, [corpus], seed=2, **OPTIONS))
    path = mixture_file(tmp_path, [corpus], **OPTIONS)
    mixed, current = mixed_in(path)
    mixing = mixing_of(path)
    folder, expected = mixing.folder, all_files(current)
    (current.parent / "0123456789ab/megatron").mkdir(parents=True)
    (current.parent / "0123456789ab/megatron/train-00000.bin").write_bytes(b"abc")
    assert [(version.place, version.state, version.files) for version in versions_of(folder)] == [
        ("0123456789ab", "unfinished", 1),
        (older.name, "complete", len(all_files(older))),
        (current.name, "current", len(expected)),
    ]
    listed = json.loads(invoke("mix", path, "--versions", "--format", "json").stdout)
    assert [version["size"] for version in listed] == [3, *(size_of(place) for place in (older, current))]
    assert listed[-1]["tokens"] == mixed.tokens
    lines = invoke("mix", path, "--versions").stdout.splitlines()
    assert lines == list(lines_of_file(str(path), None, None))
    assert lines[1].endswith("unfinished: 1 file, 3 bytes; zyda mix finishes it, zyda clean removes it")
    assert [item.path for item in leftovers(folder)] == ["0123456789ab"]
    assert [record.place for record in new_certificate(mixing.inputs).versions] == [older.name]
    for place, error in ((current.name, Denied), ("none", BadRequest)):
        with pytest.raises(error, match=f"version {place}"):
            remove_one_version(folder, place, yes=False)
    assert all_files(current) == expected
    assert invoke("mix", path, "--remove-version", older.name, "--yes").exit_code == 0
    assert not older.exists()
    assert all_files(current) == expected
    assert [version.place for version in versions_of(folder)] == ["0123456789ab", current.name]
    assert not new_certificate(mixing.inputs).versions
    assert invoke("mix", path, "--remove-version", current.name, "--yes").exit_code == 0
    assert not current.exists()
    assert not (current.parent / "mixture.json").exists()
    mixed_in(path)
    assert all_files(current) == expected


def size_of(place):
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def test_interrupted_removal_leaves_an_unfinished_version(corpus, tmp_path, monkeypatch):
    path = mixture_file(tmp_path, [corpus], **OPTIONS)
    _, place = mixed_in(path)
    folder = mixing_of(path).folder
    monkeypatch.setattr(type(folder), "delete", lambda self, path: 1 / 0)
    version = version_at(folder, place.name, None)
    with pytest.raises(ZeroDivisionError):
        remove_version(folder, version)
    monkeypatch.undo()
    assert [(item.place, item.state) for item in versions_of(folder)] == [(place.name, "unfinished")]
    assert [item.path for item in leftovers(folder)] == [place.name]


def test_mixture_without_versions(corpus, tmp_path):
    path = mixture_file(tmp_path, [corpus], **OPTIONS)
    assert invoke("mix", path, "--versions").stdout.splitlines() == [
        f"mixture {tmp_path}/mixed/mixture",
        "it has no version yet; zyda mix mixes it",
    ]


def test_clean_removes_exchanged_clusters_and_the_next_mix_chooses_nothing_again(corpus, tmp_path):
    options = OPTIONS | {"repeat": {1: 1, 2: 3}, "validation": {"share": 0.1}}
    path = mixture_file(tmp_path, [corpus], **options)
    _, place = mixed_in(path)
    expected = all_files(place)
    (work,) = leftovers(mixing_of(path).folder)
    assert work.path == "work/shares"
    assert work.size == size_of(place.parent / "work/shares")
    assert invoke("clean", path).stdout.splitlines()[-1].endswith(": removed")
    assert not (place.parent / "work/shares").exists()
    assert all_files(place) == expected
    made = Counter()

    def counting(jobs, step):
        made[step] += sum(job.made_before() is None for job in jobs if hasattr(job, "made_before"))
        return run_here(jobs, step)

    assert mixing_of(path, counting).plan.amounts
    assert made["clusters"]
    assert not made["choice"]


def test_plan_names_about_the_storage_that_the_mix_needs(corpus, tmp_path):
    formats = ["megatron", "datatrove", "torchtitan"]
    path = mixture_file(tmp_path, [corpus], formats=formats, budget={"tokens": "1M"}, max_epochs=1000)
    work = {}

    def measuring(jobs, step):
        results = run_here(jobs, step)
        work[step] = size_of(tmp_path / "mixed/mixture/work")
        return results

    storage = json.loads(plan_as_json(mixing_of(path, run_here)))["storage"]
    _, place = mixed_in(path, measuring)
    assert storage["files"] == pytest.approx(size_of(place), rel=0.1)
    assert storage["work"] == pytest.approx(work["shuffle of ids"], rel=0.1)
    assert storage["work_kept"] == pytest.approx(size_of(place.parent / "work"), rel=0.9)
