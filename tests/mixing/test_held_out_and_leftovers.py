"""Test the messages about held-out documents and about the folders of interrupted mixes."""

import pytest
from small_mixtures import all_files, corpus_of, mixed_in, mixing_of, mixture_file, run_here
from typer.testing import CliRunner

from zyda_flows.flows.command.cli import app
from zyda_flows.flows.command.mixture_plan import plan_lines, recall_lines, unfinished_lines
from zyda_flows.tasks.mixing import mixing as steps
from zyda_flows.tasks.mixing.leftovers import leftovers


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, compiled):
    return corpus_of(tmp_path_factory.mktemp("corpus"), documents=15)


def test_validation_share_that_holds_out_no_document_is_reported(corpus, tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr(steps, "warn", warnings.append)
    options = {"formats": ["text", "megatron"], "budget": {"tokens": 3000}}
    path = mixture_file(tmp_path, [corpus], validation={"share": 1e-9}, **options)
    plan = plan_lines(mixing_of(path))
    mixed, _ = mixed_in(path)
    expected = (
        "validation: a share of 1e-09 holds out no document: raise it, or leave it out; the last shard of text is "
        "training data, which readers take for the validation"
    )
    assert warnings == [expected]
    assert expected in plan
    assert not any(part.held_out for part in mixed.parts)
    warnings.clear()
    parts = [{"name": "all", "weight": 1}, {"name": "unused", "source": "good", "weight": 0}]
    mixed, _ = mixed_in(mixture_file(tmp_path, [corpus], validation={"share": 0.3}, parts=parts, **options))
    assert mixed.parts[0].held_out
    assert not warnings
    parts = [{"name": "one", "where": "name = 'o1'", "weight": 1}, {"name": "rest", "weight": 9}]
    budget = {"tokens": 300}
    path = mixture_file(
        tmp_path, [corpus], validation={"share": 0.05}, parts=parts, formats=["megatron"], budget=budget
    )
    held_out = {tally.name: tally.held_out for tally in mixing_of(path).plan.tallies}
    assert held_out["rest"]
    assert not held_out["one"]
    assert mixing_of(path).nothing_held_out == [
        "validation: a share of 0.05 holds out no document of part one"
    ]


def test_recall_of_near_duplicates_is_shown_for_one_corpus(corpus, tmp_path):
    """With 8 bands of 16 values, the probability of a shared bucket at similarity 0.9 is 1 - (1 - 0.9**16)**8."""
    lines = recall_lines(mixing_of(mixture_file(tmp_path, [corpus], validation={"share": 0.3})))
    assert lines == [
        f"of near-duplicates within small, {1 - (1 - 0.9**16) ** 8:.1%} are found at a similarity of 0.9"
    ]


def test_folders_of_interrupted_mixes_are_listed_and_removed(corpus, tmp_path):
    path = mixture_file(tmp_path, [corpus], budget={"tokens": 3000})
    _, finished = mixed_in(path)
    expected = all_files(finished)

    def interrupted(jobs, step):
        if step == "files of ids":
            jobs[0]()
            raise KeyboardInterrupt
        return run_here(jobs, step)

    other = mixture_file(tmp_path, [corpus], budget={"tokens": 3000}, seed=2)
    with pytest.raises(KeyboardInterrupt):
        mixing_of(other, interrupted).mix()
    mixing = mixing_of(other)
    sizes = {
        name: sum(
            file.stat().st_size for file in (tmp_path / "mixed/mixture" / name).rglob("*") if file.is_file()
        )
        for name in (mixing.place, "work/segments", "work/outputs")
    }
    assert {leftover.path: leftover.size for leftover in leftovers(mixing.folder)} == sizes
    assert not unfinished_lines(mixing, "m.yaml")  # a mix continues its own folder
    (line,) = unfinished_lines(mixing_of(mixture_file(tmp_path, [corpus], budget={"tokens": 3000})), "m.yaml")
    assert line.startswith(f"{mixing.folder.url}/{mixing.place}: ")
    assert line.endswith("of an interrupted mix; remove it with zyda clean m.yaml")

    def clean(*arguments):
        return CliRunner().invoke(app, ["clean", str(path), *arguments]).output

    assert f"{mixing.place}/" in clean("--dry-run")
    assert (tmp_path / "mixed/mixture" / mixing.place).exists()
    assert clean().splitlines()[-1].endswith(": removed")
    assert not leftovers(mixing.folder)
    assert all_files(finished) == expected
    assert clean() == "0 files, 0 bytes: removed\n"
