"""Test repeated, interrupted and concurrent mixes: the files are equal, and completed work is not repeated."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Event

import pyarrow.parquet as pq
import pytest
from patience import HANG
from prefect.task_runners import ThreadPoolTaskRunner
from small_corpus import build_here, prose, rows, write_rows
from small_mixtures import (
    FORMATS,
    all_files,
    corpus_of,
    mixed_in,
    mixing_of,
    mixture_file,
    run_here,
)
from typer.testing import CliRunner

from zyda_flows.flows import mix as flow_module
from zyda_flows.flows.command.cli import app
from zyda_flows.flows.server.exclusion import is_held, mixture_lock_name
from zyda_flows.tasks.mixing import gathering
from zyda_flows.tasks.mixing.mixing import SEQUENCES, mix_all, planned
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.mixing.planning import inputs_of
from zyda_flows.tasks.mixing.tracing import MixtureTracer
from zyda_flows.tasks.mixing.versions import versions_of
from zyda_flows.tasks.storage import holding


@pytest.mark.slow
def test_memory_processes_and_interruptions_do_not_change_the_files(corpora, tmp_path, monkeypatch):
    options = {"formats": FORMATS, "validation": {"share": 0.1}, "file_gib": 2e-5, "packed": 64}
    _, place = mixed_in(mixture_file(tmp_path / "a", corpora, **options))
    expected = all_files(place)
    monkeypatch.setattr(gathering, "MEMORY_BYTES", 4096)
    path = mixture_file(tmp_path / "b", corpora, **{**options, "packed": ...})
    _, place = mixed_in(path)
    monkeypatch.undo()
    plain = all_files(place)
    _, place = mixed_in(mixture_file(tmp_path / "c", corpora, **{**options, "packed": ...}))
    files = all_files(place)
    assert files.keys() == plain.keys()
    for name in files:  # row group sizes depend on memory; rows do not
        if name.endswith(".parquet"):
            assert pq.read_table(BytesIO(files[name])).equals(pq.read_table(BytesIO(plain[name])))
        elif not name.endswith(".json"):
            assert files[name] == plain[name], name
    path = mixture_file(tmp_path / "d", corpora, **options)
    for jobs_before in (0, 1, 2, 3, 5, 6, 7, 9):
        remaining = [jobs_before]

        def interrupted(jobs, step, remaining=remaining):
            for job in jobs:
                if not remaining[0]:
                    raise KeyboardInterrupt
                remaining[0] -= 1
                job()
            return run_here(jobs, step)

        with pytest.raises(KeyboardInterrupt):
            mixed_in(path, interrupted)
    _, place = mixed_in(path, lambda jobs, step: run_here(jobs[::-1], step)[::-1])
    files = all_files(place)
    assert files.keys() == expected.keys()
    assert all(files[name] == expected[name] for name in files if not name.endswith(".json"))


def counting(jobs_by_step):
    def run_jobs(jobs, step):
        done = []
        for job in jobs:
            before = job.made_before() if hasattr(job, "made_before") else None
            jobs_by_step[step] += before is None
            done.append(job())
        return done

    return run_jobs


def without_prefixes(files):
    """Return the files without the file that contains absolute paths."""
    return {path: content for path, content in files.items() if path != SEQUENCES}


def test_two_concurrent_mixes_with_the_same_name_do_not_interfere(corpora, tmp_path, monkeypatch):
    weights = [[{"name": "good", "source": "good", "weight": weight}] for weight in (1, 2)]
    alone = [
        all_files(mixed_in(mixture_file(tmp_path / f"alone{i}", corpora, parts=parts))[1])
        for i, parts in enumerate(weights)
    ]
    first, second = (
        inputs_of(
            load_mixture(str(mixture_file(tmp_path / str(i), corpora, parts=parts)), storage=str(tmp_path))
        )
        for i, parts in enumerate(weights)
    )
    is_shuffled, waits = Event(), Event()

    def until_the_other_waits(jobs, step):
        if step.startswith("files of"):
            is_shuffled.set()
            assert waits.wait(HANG)
        return run_here(jobs, step)

    monkeypatch.setattr(holding, "warn", lambda line: waits.set() if "another mix" in line else None)
    with ThreadPoolExecutor(2) as threads:
        mixes = [threads.submit(mix_all, first, until_the_other_waits)]
        assert is_shuffled.wait(HANG)
        mixes.append(threads.submit(mix_all, second, run_here))
        places = [second.folder.path(mix.result().place) for mix in mixes]
    for place, files in zip(places, alone, strict=True):
        assert without_prefixes(all_files(Path(place))) == without_prefixes(files)


def test_changed_weight_encodes_nothing_again_and_a_new_file_only_itself(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=20)
    jobs_by_step = Counter()
    mixed_in(mixture_file(tmp_path, [corpus]), counting(jobs_by_step))
    assert jobs_by_step["tokens"] == jobs_by_step["choice"] == 6
    jobs_by_step.clear()
    parts = [
        {"name": "good", "source": "good", "weight": 3},
        {"name": "other", "source": "other", "weight": 1},
    ]
    mixed, _ = mixed_in(mixture_file(tmp_path, [corpus], parts=parts, max_epochs=40), counting(jobs_by_step))
    assert (jobs_by_step["tokens"], jobs_by_step["choice"], jobs_by_step["tallies"]) == (0, 0, 0)
    assert jobs_by_step["shuffle of ids"] == 6
    assert mixed.parts[0].written == pytest.approx(15_000, abs=300)
    jobs_by_step.clear()
    mixed_in(mixture_file(tmp_path, [corpus], parts=parts, max_epochs=40), counting(jobs_by_step))
    assert not +jobs_by_step
    write_rows(tmp_path / "corpus/in/good-9.jsonl", rows(new=prose("new")))
    build_here(corpus.load())
    mixed_in(mixture_file(tmp_path, [corpus], parts=parts, max_epochs=40), counting(jobs_by_step))
    assert jobs_by_step["tokens"] == 1


def test_mix_after_its_plan_runs_each_step_once(corpora, tmp_path):
    steps = Counter()

    def run_jobs(jobs, step):
        steps[step] += 1
        return run_here(jobs, step)

    inputs = inputs_of(load_mixture(str(mixture_file(tmp_path, corpora, budget={"tokens": 10_000}))))
    plan = planned(inputs, run_jobs)
    assert mix_all(inputs, run_jobs, plan=plan).tokens == sum(amount.tokens for amount in plan.plan.amounts)
    assert steps["tokens"] == steps["choice"] == steps["files of ids"] == 1


def test_damaged_work_files_are_repaired(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora, budget={"tokens": 10_000})
    _, place = mixed_in(path)
    expected = all_files(place)
    for step in ("tokens", "chosen", "tallies"):
        for name in sorted((place.parent / f"work/{step}").rglob("*.parquet"))[:2]:
            content = bytearray(name.read_bytes())
            content[len(content) // 3] ^= 0xFF
            name.chmod(0o644)
            name.write_bytes(content)
    (place / "mixture.json").unlink()
    mix_all(inputs_of(load_mixture(str(path))), run_here)
    assert all_files(place) == expected
    cut = place / "megatron/train-00000.bin"
    cut.chmod(0o644)
    cut.write_bytes(b"")
    mix_all(inputs_of(load_mixture(str(path))), run_here)
    assert all_files(place) == expected


@pytest.mark.slow
def test_command_repairs_damaged_results_before_it_prints_a_plan(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora)
    plan = mixing_of(path).plan
    (tally,) = (tmp_path / "mixed/mixture/work/tallies").glob("*.parquet")
    content = tally.read_bytes()
    for options in (["--plan"], ["--plan", "--format", "json"], []):
        tally.chmod(0o644)
        tally.write_bytes(content[::-1])
        printed = CliRunner().invoke(app, ["mix", str(path), *options])
        assert printed.exit_code == 0, printed.output
        assert f"{plan.tallies[0].documents}" in printed.stdout
        assert tally.read_bytes() == content


@pytest.mark.slow
def test_mix_in_prefect_holds_the_lock_until_it_ends(corpora, server, tmp_path, monkeypatch):
    path, lock_states = str(mixture_file(tmp_path, corpora)), []
    name = mixture_lock_name(load_mixture(path))

    def note_lock(inputs, mixed):
        lock_states.append(is_held(name))

    monkeypatch.setattr(flow_module, "show", note_lock)
    mix = flow_module.mix.with_options(task_runner=ThreadPoolTaskRunner())
    mix(path)
    assert lock_states == [True]
    assert not is_held(name)
    url = mix(str(mixture_file(tmp_path, corpora, seed=9)), forget=True)
    versions = {file.parent for file in (tmp_path / "mixed/mixture").glob("*/mixture.json")}
    assert {str(version) for version in versions} == {url}


def test_mixture_on_an_object_store_has_the_same_bytes(corpora, s3, tmp_path):
    options = {"formats": FORMATS, "validation": {"share": 0.1}}
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, **options))
    path = mixture_file(tmp_path / "on-s3", corpora, storage=f"{s3}/mixtures", **options)
    mixing = mixing_of(path)
    assert mixing.mix().outputs == mixed.outputs
    expected = {name: content for name, content in all_files(place).items() if not name.endswith(".json")}
    stored = mixing.folder.folder(mixing.place)
    assert {name: stored.read(name) for name in expected} == expected
    assert MixtureTracer.at(mixing.folder.url).output(None, 100)[1] == 100
    assert not [name for name in mixing.folder.files("") if "segments" in name]
    assert [(version.place, version.state) for version in versions_of(mixing.folder)] == [
        (mixing.place, "current")
    ]
    made_again = Counter()
    mixed_in_store = mixing_of(path, counting(made_again))
    mixed_in_store.mix()
    assert not +made_again


def test_verify_writes_changed_files_again(corpora, tmp_path):
    path = mixture_file(tmp_path, corpora)
    _, place = mixed_in(path)
    expected = all_files(place)
    data = place / "megatron/train-00000.bin"
    data.chmod(0o644)
    content = bytearray(data.read_bytes())
    content[1000:1004] = b"XXXX"
    data.write_bytes(content)
    (place / "megatron/sequences.json").unlink()
    mix_all(inputs_of(load_mixture(str(path))), run_here)
    assert data.read_bytes() == content  # without verify, the content is not read
    assert (place / "megatron/sequences.json").exists()
    mix_all(inputs_of(load_mixture(str(path))), run_here, verify=True)
    assert all_files(place) == expected
