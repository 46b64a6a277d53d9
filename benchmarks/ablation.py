"""Measure the decisions of `zyda ablate`: the rate of false claims, and which degraded corpora are seen.

The first table has many runs of one variant, which differ in their seeds only. They are split at random into two
groups of k runs, and the rule of the tool decides whether the groups differ. The rate of claims should be at most
`alpha`. The rate has two intervals: a block bootstrap, whose blocks are the disjoint splits of one permutation of
the runs, and a smoothed bootstrap of the runs, which is wider, because all splits share the same runs.

In the second table the same corpus is compared with noise in its texts, and with copies instead of a part of them.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.corpora import build_here, in_folders, load_texts, write_recipe, write_texts
from benchmarks.harness import DEMO, DEMO_TOKENIZER, Size, Table, TextsFolder, TokenizerFile, benchmark
from zyda_flows.flows.command.processes import done_by, own_processes
from zyda_flows.tasks.ablation.ablation import planned
from zyda_flows.tasks.ablation.decision import compare
from zyda_flows.tasks.ablation.experiment import HELD_OUT, load_experiment
from zyda_flows.tasks.ablation.records import RunRecord
from zyda_flows.tasks.ablation.runs import Run

ALPHA, SPLITS, RESAMPLES = 0.05, 1000, 1000
SMOOTHING, WORLDS, PERMUTATIONS = 0.25, 100, 20  # of the bootstrap of the runs
GROUPS = (2, 3, 4, 6, 12)
DEGRADED = {
    "noise in 10 % of the tokens": {"noise": 0.1},
    "noise in 20 % of the tokens": {"noise": 0.2},
    "copies instead of half of the documents": {"replayed": 0.5},
}
DEGRADED_RUNS = 4
MEGABYTES = 100
HELD_OUT_DOCUMENTS = 20


def experiment_of(
    folder: Path, texts: Path, tokenizer: Path, parameters: float, tokens: float, runs: int
) -> Path:
    """Build a corpus of the texts of a folder, and write an experiment of it."""
    write_texts(folder, [("texts", load_texts(texts, MEGABYTES))])
    build_here(write_recipe(folder, "corpus", in_folders(["texts"]), dedup={"scope": "global"}))
    content = {
        "name": "ablation", "storage": "ablations", "tokenizer": str(tokenizer.resolve()),
        "tokens": tokens, "repeats": runs, "held_out": HELD_OUT_DOCUMENTS,
        "sequence": 128, "batch": 8,
        "variants": [{"name": "texts", "corpus": "out/corpus"}], "model": {"parameters": parameters},
    }  # fmt: skip
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def trained(runs: Sequence[Run]) -> list[RunRecord]:
    """Return the records of runs, each trained by a process of one core."""
    with own_processes() as pool:
        records = {run.key: record for run, record in done_by(pool, runs)}
    return [records[run.key] for run in runs]


def claims_of(values: np.ndarray, size: int, permutations: int, chance: np.random.Generator) -> np.ndarray:
    """Return the share of claims among the disjoint splits into two groups of `size` of each permutation."""
    pairs = len(values) // (2 * size)
    shares = np.empty(permutations)
    for place in range(permutations):
        groups = chance.permutation(values)[: 2 * size * pairs].reshape(pairs, 2, size)
        found = [compare(HELD_OUT, first, {"other": second}, ALPHA)[0] for first, second in groups]
        shares[place] = np.mean([each.is_claimed for each in found])
    return shares


def false_claims(values: np.ndarray, size: int) -> dict[str, Any]:
    """Return a row: the rate of claims between groups of runs of the same variant, with its intervals."""
    chance = np.random.default_rng(size)
    blocks = claims_of(values, size, -(-SPLITS // (len(values) // (2 * size))), chance)
    means = [chance.choice(blocks, len(blocks)).mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    width = SMOOTHING * values.std(ddof=1)
    worlds = [chance.normal(chance.choice(values, len(values)), width) for _ in range(WORLDS)]
    rates = [claims_of(world, size, PERMUTATIONS, chance).mean() for world in worlds]
    lowest, highest = np.quantile(rates, [0.025, 0.975])
    return {
        "runs in a group": f"{size}", "stated rate": ALPHA, "rate of false claims": float(blocks.mean()),
        "block bootstrap, from": float(low), "to": float(high),
        "bootstrap of the runs, from": float(lowest), "to ": float(highest),
    }  # fmt: skip


@benchmark("ablation", as_worker=False)
def measure(
    texts: TextsFolder = DEMO,
    tokenizer: TokenizerFile = DEMO_TOKENIZER,
    runs: Size = 24,
    tokens: Size = 300_000,
    parameters: Size = 1e6,
) -> Iterator[Table]:
    with tempfile.TemporaryDirectory() as scratch:
        path = experiment_of(Path(scratch), texts, tokenizer, parameters, tokens, int(runs))
        _, _, all_runs = planned(load_experiment(str(path)), print)
        seeds = [run for run in all_runs if run.variant == "texts"]
        records = trained(seeds)
        values = np.array([record.measures[HELD_OUT] for record in records])
        title = (
            f"{len(values)} runs of {records[0].tokens:,} tokens, {records[0].parameters:,} parameters, "
            f"{np.mean([record.seconds for record in records]):.0f} s each: {values.mean():.4f} bits per byte, "
            f"standard deviation {values.std(ddof=1):.4f}"
        )
        yield Table(title, [false_claims(values, size) for size in GROUPS if 2 * size <= len(values)])
        yield Table("Degraded corpora", [*degraded_rows(seeds[:DEGRADED_RUNS], values)])


def degraded_rows(runs: Sequence[Run], values: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield a row for each degradation, compared with as many runs of the clean corpus."""
    for name, change in DEGRADED.items():
        changed = [replace(run, variant=name, input=run.input.model_copy(update=change)) for run in runs]
        measured = [record.measures[HELD_OUT] for record in trained(changed)]
        (found,) = compare(HELD_OUT, values[-len(runs) :], {name: measured}, ALPHA)
        is_seen = found.is_claimed and found.difference > 0
        yield {
            "corpus": name, "runs": f"{len(runs)} and {len(runs)}", "difference": found.difference,
            "from": found.low, "to": found.high, "seen": "yes" if is_seen else "no",
        }  # fmt: skip


if __name__ == "__main__":
    measure.main()
