"""A swarm: single runs of many mixtures of the parts of a variant, and the mixture that they propose.

The mixtures are the natural shares (repeated, for the noise), the natural shares without each part, and random
shares around them. No mixture repeats a part more often than a limit in the large run.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import yaml

from zyda_flows.tasks.ablation.ablation import RunJobs, Say
from zyda_flows.tasks.ablation.experiment import ACCURACY, FILE, GOLD, HELD_OUT, Controls, Experiment
from zyda_flows.tasks.ablation.libraries import expect_libraries
from zyda_flows.tasks.ablation.mixture_fit import Numbers, Proposal, propose
from zyda_flows.tasks.ablation.planned_runs import finished_runs, plan_runs
from zyda_flows.tasks.ablation.preparation import SOURCE, prepare
from zyda_flows.tasks.ablation.protocol import fix_protocol
from zyda_flows.tasks.ablation.records import RunRecord, Trainings
from zyda_flows.tasks.ablation.runs import Run
from zyda_flows.tasks.ablation.swarm_tables import SwarmTable, write_tables
from zyda_flows.tasks.ablation.variants import OpenedVariant, open_variants, with_epochs
from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.mixing.mixture import Mixture
from zyda_flows.tasks.storage.records import write_record

MOST_EPOCHS = 4.0  # of a part in the large run
CONCENTRATIONS = (0.5, 20.0)  # of the Dirichlet distributions, times the natural shares
SMALLEST = 0.002  # share of a part; smaller shares become 0
SPARE = 1.25  # times the tokens of a run, because near-duplicates of held-out documents are left out
MEASURES = {HELD_OUT: SOURCE, GOLD: f"{GOLD}:", ACCURACY: f"{ACCURACY}:"}  # beginnings of the single measures
PROPOSAL, MIXTURE = "swarm/proposal.json", "swarm/mixture.yaml"


def train_swarm(experiment: Experiment, count: int, run_jobs: RunJobs, say: Say) -> Proposal:
    """Train a model on each mixture, of which `count` are random; write the tables and the proposal.

    Raises BadRequest for a variant with a single part, and the errors of `ablate`.
    """
    expect_libraries()
    base = natural_variant(experiment)
    single = experiment.model_copy(update={"controls": Controls(equal=False, degraded=None)})
    protocol = fix_protocol(experiment)
    mixtures = [base, *mixtures_of(base, experiment, count)]
    prepared = prepare(single, say, mixtures)
    runs = [
        run for run in plan_runs(single, prepared, protocol.digest)
        if not run.size and (run.variant == base.name or run.input.seed == experiment.seed)
    ]  # fmt: skip
    records = finished_runs(runs)
    missing = [run for run in runs if run.key not in records]
    records |= {run.key: record for run, record in zip(missing, run_jobs(missing, len(records)), strict=True)}
    in_order = [records[run.key] for run in runs]
    table = table_of(experiment, base, mixtures, runs, in_order)
    write_tables(experiment.folder, table)
    say("fitting the measures")
    return proposed(experiment, table, base, Trainings.of(in_order))


def natural_variant(experiment: Experiment) -> OpenedVariant:
    """Open the first variant of an experiment, whose parts are mixed. Raises BadRequest for a single part."""
    base = open_variants(experiment)[0]
    if len(base.parts) < 2:
        raise BadRequest(
            f"variant {base.name} has a single part; a swarm mixes the parts of the first variant"
        )
    return base


def proposed(
    experiment: Experiment, table: SwarmTable, base: OpenedVariant, trainings: Trainings | None = None
) -> Proposal:
    """Propose a mixture from the runs of a table, and write it. Raises BadRequest for other parts."""
    if {*table.parts} != {*base.names}:
        other = sorted({*table.parts} ^ {*base.names})[0]
        raise BadRequest(f"the table and the variant {base.name} have different parts ({other})")
    order = [table.parts.index(name) for name in base.names]
    shares = table.shares[:, order]
    least = len(base.parts) + 2
    if len(shares) < least:
        raise BadRequest(f"{len(shares)} runs, expected at least {least} for {len(base.parts)} parts")
    values = {name: 1 - each if name.startswith(ACCURACY) else each for name, each in table.values.items()}
    found = propose(base.names, shares, values, np.array(base.shares), most_shares(base, experiment))
    found = found.model_copy(update={"trainings": trainings})
    write_record(experiment.folder, PROPOSAL, found)
    experiment.folder.write(MIXTURE, mixture_file(experiment, base, found).encode())
    return found


def most_shares(base: OpenedVariant, experiment: Experiment) -> Numbers:
    """Return the largest share of each part: (parts,).

    In the large run a part is repeated at most MOST_EPOCHS times; without `target_tokens`, a run of the swarm
    repeats nothing. Raises BadRequest if the parts together have too few tokens.
    """
    available = np.array(base.available, float)
    most = MOST_EPOCHS * available / base.target if base.target else available / experiment.tokens / SPARE
    if most.sum() < 1:
        raise BadRequest(
            f"the parts of {base.name} have {available.sum():,.0f} tokens, too few for the budget: lower "
            "`target_tokens` or `tokens`"
        )
    return np.minimum(most, 1.0)


def mixtures_of(base: OpenedVariant, experiment: Experiment, count: int) -> list[OpenedVariant]:
    """Return the mixtures without each part, and `count` random mixtures."""
    natural, most = np.array(base.shares), most_shares(base, experiment)
    chance, drawn = np.random.default_rng(experiment.seed), list[Numbers]()
    without = [np.where(np.arange(len(natural)) == part, 0.0, natural) for part in range(len(natural))]
    while len(drawn) < count:
        strength = np.exp(chance.uniform(*np.log(CONCENTRATIONS)))
        shares = chance.dirichlet(np.maximum(natural * strength, 1e-3))
        drawn.append(np.where(shares < SMALLEST, 0.0, shares))
    names = [*(f"without-{name}" for name in base.names), *(f"mixture-{i:04d}" for i in range(count))]
    return [
        with_epochs(replace(base, name=name, shares=tuple(within(shares, most).tolist())), experiment)
        for name, shares in zip(names, [*without, *drawn], strict=True)
        if np.minimum(most, shares > 0).sum() >= 1
    ]


def within(shares: Numbers, most: Numbers) -> Numbers:
    """Return shares with the sum 1, none above its limit; the other parts share the excess in proportion."""
    limit = np.where(shares > 0, most, 0.0)
    shares = np.minimum(shares / shares.sum(), limit)
    for _ in range(len(shares)):
        is_free = (shares > 0) & (shares < limit)
        if not is_free.any() or shares.sum() >= 1 - 1e-12:
            break
        shares = np.where(is_free, shares * (1 + (1 - shares.sum()) / shares[is_free].sum()), shares)
        shares = np.minimum(shares, limit)
    return np.asarray(shares / shares.sum())


def table_of(
    experiment: Experiment, base: OpenedVariant, mixtures: Sequence[OpenedVariant], runs: Sequence[Run],
    records: Sequence[RunRecord],
) -> SwarmTable:  # fmt: skip
    """Return the shares of all runs, and their measures: all single measures of the decisive measure."""
    shares = {mixture.name: mixture.shares for mixture in mixtures}
    decisive = experiment.measure
    names = [
        name for name in records[0].measures
        if name == decisive or (not decisive.startswith(FILE) and name.startswith(MEASURES[decisive]))
    ]  # fmt: skip
    names = [name for name in names if name != decisive or len(names) == 1]
    return SwarmTable(
        tuple(f"{run.variant}-{run.input.seed}" for run in runs),
        tuple(base.names),
        np.array([shares[run.variant] for run in runs]),
        {name: np.array([record.measures[name] for record in records]) for name in names},
    )


def mixture_file(experiment: Experiment, base: OpenedVariant, found: Proposal) -> str:
    """Return the text of a mixture file with the proposed shares as weights."""
    parts = list[dict[str, Any]]()
    for part in base.parts:
        fields = part.model_dump(mode="json", exclude_none=True, exclude={"weight", "epochs", "max_epochs"})
        parts.append({**fields, "weight": round(100 * found.shares[part.name], 4)})
    content = {
        "name": f"{experiment.name}-mixture",
        "storage": experiment.folder.folder("swarm").url,
        "corpora": [corpus.root.url for corpus in base.corpora],
        "tokenizer": experiment.tokenizer,
        "special_tokens": experiment.special_tokens,
        "end": experiment.separator,
        "budget": {"tokens": float(base.target or sum(base.available))},
        "max_epochs": MOST_EPOCHS,
        "parts": parts,
    }
    Mixture.model_validate(content)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
