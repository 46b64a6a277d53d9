"""Swarms: the fit finds a known optimum, tables keep their values in any order, and a mixture file is proposed."""

import csv
import random

import numpy as np
import pytest
import yaml
from small_corpus import zyda_here
from small_mixtures import experiment_file

from zyda_flows.flows.reporting.ablations import propose_mixture
from zyda_flows.tasks.ablation import mixture_fit
from zyda_flows.tasks.ablation.experiment import load_experiment
from zyda_flows.tasks.ablation.mixture_fit import best_shares, fit, predictions, propose, rank_correlation
from zyda_flows.tasks.ablation.swarm import most_shares, natural_variant, train_swarm, within
from zyda_flows.tasks.ablation.swarm_tables import SwarmTable, read_tables, write_tables
from zyda_flows.tasks.errors import BadInput, BadRequest
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.storage.folder import Folder


def swarm(seed, parts, measures, runs, noise):
    """Return natural shares, mixtures, the true law of each measure and measured values."""
    chance = np.random.default_rng(seed)
    natural = chance.dirichlet(np.full(parts, 5.0))
    shares = np.stack(
        [chance.dirichlet(np.maximum(natural * np.exp(chance.uniform(-0.7, 3)), 1e-3)) for _ in range(runs)]
    )
    laws = [(chance.uniform(0.5, 1), chance.normal(-0.3, 0.6, parts)) for _ in range(measures)]
    exact = np.stack([constant + np.exp(shares @ slopes) for constant, slopes in laws], axis=1)
    return natural, shares, laws, exact + chance.normal(size=exact.shape) * exact.std(axis=0) * noise


def true_optimum(laws, natural, most):
    """Return the minimum of the mean of the laws and of 0.1 times the divergence, by projected steps."""
    shares = np.minimum(natural, most)
    shares /= shares.sum()
    for step in range(4000):
        gradient = np.mean([np.exp(shares @ slopes) * slopes for _, slopes in laws], axis=0)
        gradient += 0.1 * (np.log(shares / natural) + 1)
        moved = shares * np.exp(-0.3 * (gradient - gradient.mean()) / (1 + step / 400))
        for _ in range(len(shares)):  # scale the free parts until the sum is 1 and no part is above its limit
            is_full = moved >= most - 1e-15
            moved = np.where(is_full, most, moved * (1 - most[is_full].sum()) / moved[~is_full].sum())
            moved = np.minimum(moved, most)
        shares = moved
    return shares


@pytest.mark.parametrize("seed", range(2))
def test_proposal_is_near_the_known_optimum(seed):
    """The noise is half the spread of a measure; 5 parts, 20 measures, 160 runs."""
    natural, shares, laws, values = swarm(seed, parts=5, measures=20, runs=160, noise=0.5)
    most = np.minimum(1, 3 * natural)
    expected = true_optimum(laws, natural, most)
    found = best_shares([fit(shares, each) for each in values.T], natural, most)
    assert abs(found - expected).sum() / 2 < 0.03
    assert abs(natural - expected).sum() / 2 > 0.1
    assert found.sum() == pytest.approx(1)
    assert (found <= most + 1e-6).all()


def test_proposal_states_the_gain_with_its_interval(monkeypatch):
    monkeypatch.setattr(mixture_fit, "RESAMPLES", 50)
    natural, shares, laws, values = swarm(7, parts=3, measures=4, runs=40, noise=0.2)
    names = ["a", "b", "c"]
    measured = {f"m{i}": each for i, each in enumerate(values.T)}
    found = propose(names, shares, measured, natural, np.ones(3))
    best = np.array([found.shares[name] for name in names])
    true_gain = np.mean([np.exp(natural @ slopes) - np.exp(best @ slopes) for _, slopes in laws])
    assert found.low < found.gain < found.high
    assert found.low < true_gain < found.high
    assert found.rank_correlation > 0.8
    assert rank_correlation(predictions(shares, np.random.default_rng(1).permutation(values))) < 0.5


def test_tables_are_read_in_any_order_of_columns_and_rows(tmp_path):
    chance = np.random.default_rng(2)
    table = SwarmTable(
        tuple(f"r{i}" for i in range(6)), ("web", "code, old", "books"), chance.dirichlet(np.ones(3), 6),
        {"gold:arc": chance.random(6), "source:web": chance.random(6)},
    )  # fmt: skip
    write_tables(Folder(str(tmp_path)), table)
    mixed = random.Random(1)
    for name, id_column in (("ratios", "run"), ("metrics", "run_id")):
        path = tmp_path / "swarm" / f"{name}.csv"
        with path.open(newline="") as file:
            head, *rows = csv.reader(file)
        order = mixed.sample(range(len(head)), len(head))
        head[head.index("run")] = id_column
        mixed.shuffle(rows)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([[row[i] for i in order] for row in [head, *rows]])
    read = read_tables(*(str(tmp_path / "swarm" / f"{name}.csv") for name in ("ratios", "metrics")))
    for number, run in enumerate(read.runs):
        place = table.runs.index(run)
        for part, name in enumerate(read.parts):
            assert read.shares[number, part] == pytest.approx(table.shares[place, table.parts.index(name)])
        for name, values in table.values.items():
            assert read.values[name][number] == values[place]


@pytest.mark.parametrize(
    ("ratios", "metrics", "fault"),
    [("run,a,b\nx,0.5,0.6\n", "run,m\nx,1\n", "ratios.csv: line 2: the shares of run x"),
     ("run,a,b\nx,0.5,half\n", "run,m\nx,1\n", "ratios.csv: line 2, column b: expected a number, not 'half'"),
     ("run,a,b\nx,0.5\n", "run,m\nx,1\n", "ratios.csv: line 2: 2 columns, expected 3"),
     ("a,b\n0.5,0.5\n", "run,m\nx,1\n", "ratios.csv: line 1: expected the column run"),
     ("run,a,b\nx,0.5,0.5\nx,0.5,0.5\n", "run,m\nx,1\n", "ratios.csv: line 3: run x is listed twice"),
     ("run,a,b\nx,0.5,0.5\n", "run,m\ny,1\n", "metrics.csv: none of its runs is in"),
     ("run,a,b\nx,0.5,0.5\n", "run,m\nx,nan\n", "metrics.csv: line 2, column m"),
     ("run,a,b\nx,0.5,0.5\n", "", "metrics.csv: line 1"), ("run,a\nx,1\n", None, "metrics.csv: there is no such file")],
)  # fmt: skip
def test_fault_of_a_table_is_named_with_file_and_line(tmp_path, ratios, metrics, fault):
    for name, text in (("ratios", ratios), ("metrics", metrics)):
        if text is not None:
            (tmp_path / f"{name}.csv").write_text(text)
    with pytest.raises(BadInput) as error:
        read_tables(str(tmp_path / "ratios.csv"), str(tmp_path / "metrics.csv"))
    assert fault in str(error.value)


@pytest.mark.parametrize(
    ("options", "fault"),
    [(["--list", "--removed"], "--list and --removed cannot be combined"),
     (["--swarm", "3", "--tables", "a", "b"], "--swarm and --tables cannot be combined"),
     (["--tokens", "5M"], "--tokens applies to --removed")],
)  # fmt: skip
def test_options_that_exclude_each_other_are_refused(options, fault):
    result = zyda_here("ablate", "experiment.yaml", *options)
    assert result.returncode == 1
    assert fault in result.stderr


@pytest.mark.parametrize("count", [None, 0, -3, 10_001])
def test_number_of_random_mixtures_is_limited(tmp_path, small, count):
    experiment = load_experiment(str(experiment_file(tmp_path, small)))
    with pytest.raises(BadRequest, match="expected 1 to 10,000 random mixtures"):
        propose_mixture(experiment, count, None, lambda *_: 1 / 0, print)
    assert not (tmp_path / "ablations").exists()


def test_excess_of_limited_parts_is_shared_in_proportion():
    found = within(np.array([0.7, 0.2, 0.1, 0.0]), np.array([0.4, 1.0, 1.0, 1.0]))
    assert found.tolist() == pytest.approx([0.4, 0.4, 0.2, 0.0])


@pytest.mark.slow
def test_swarm_of_small_models_proposes_a_mixture_that_can_be_mixed(small, tmp_path, monkeypatch):
    monkeypatch.setattr(mixture_fit, "RESAMPLES", 3)
    path = str(
        experiment_file(
            tmp_path, small, name="tiny", sequence=32, tokens=2000, batch=4, held_out=3, repeats=2
        )
    )
    experiment = load_experiment(path)
    train_swarm(experiment, 3, lambda runs, _: [run() for run in runs], print)
    base = natural_variant(experiment)
    with (tmp_path / "ablations" / "tiny" / "swarm" / "ratios.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert (
        len(rows) == 2 + len(base.parts) + 3
    )  # the natural shares twice, without each part, and random ones
    most = most_shares(base, experiment)
    for row in rows:
        shares = np.array([float(row[name]) for name in base.names])
        assert shares.sum() == pytest.approx(1)
        assert (shares <= most + 1e-9).all()
    mixture = tmp_path / "ablations" / "tiny" / "swarm" / "mixture.yaml"
    weights = {part["name"]: part["weight"] for part in yaml.safe_load(mixture.read_text())["parts"]}
    assert sum(weights.values()) == pytest.approx(100, abs=0.01)
    assert {part.name for part in load_mixture(str(mixture)).parts} == {*base.names}
    tables = [str(mixture.parent / f"{name}.csv") for name in ("ratios", "metrics")]
    again = mixture.read_text()
    mixture.unlink()
    stdout = zyda_here("ablate", path, "--tables", *tables).stdout
    assert "Predicted gain: " in stdout
    assert stdout.endswith(f"{mixture}\n{mixture.parent}/swarm.html\n")
    assert (mixture.parent / "swarm.html").read_text().count("<svg") == 2
    assert mixture.read_text() == again
