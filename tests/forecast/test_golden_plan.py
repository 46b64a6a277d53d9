"""Compare plans of constructed trials with the figures of a former planner.

That planner (commit a4add6a) had a formula for each stage name, and wrote tests/data/plans.json.
"""

import json
import random
from dataclasses import asdict, replace

import pytest
from small_corpus import QUALITY, REPOSITORY

from zyda_flows.tasks.accounts.ledger import Ledger, Line
from zyda_flows.tasks.forecast import plan
from zyda_flows.tasks.forecast.plan import BuildPlanner
from zyda_flows.tasks.forecast.trial import Calls, ModelTrial, Trial, TrialPart
from zyda_flows.tasks.planning.survey import SourceSurvey
from zyda_flows.tasks.recipe.rounds import rounds_of
from zyda_flows.tasks.sources.input_files import FilePiece, InputFile
from zyda_flows.tasks.sources.register import Register
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.storage.counts import Counts

GOLDEN = json.loads((REPOSITORY / "tests/data/plans.json").read_text(encoding="utf-8"))
SOURCE_STAGES = ("ingest", "rules", "minhash", "removals", "filter", "publish")
ROUND_STAGES = ("edges", "clusters", "own_clusters", "decisions", "overlap")
CLASSIFIED = [
    {"name": "best", "files": "in/best-*.parquet", "classify": {"model": str(QUALITY)}},
    {"name": "middle", "files": "in/middle*.jsonl.gz"},
    {"name": "worst", "files": ["in/worst-*.jsonl.zst", "in/worst-*.arrow"]},
]
TWO_ROUNDS = [{"exact": "text"}, {"bands": 16, "rows": 8}]
# The former planner had a published file for each shard.
CASES = {
    "small": ({}, 6, 2),
    "an object store": ({"storage": "memory://far", "publish_bands": True}, 5_000, 300),
    "two rounds": ({"storage": "memory://far", "publish_bands": True, "work_copies": True, "dedup": TWO_ROUNDS}, 900, 40),
    "models": ({"sources": CLASSIFIED, "publish_bands": True}, 40, 4),
}  # fmt: skip


def random_spending(chance, *, reads_inputs=False):
    return Spent(
        calls=1,
        cpu=chance.uniform(0.1, 4.0),
        peak=chance.randrange(200 << 20, 900 << 20),
        inputs=chance.randrange(1 << 20, 9 << 20) if reads_inputs else 0,
        input_requests=chance.randrange(1, 9) if reads_inputs else 0,
        read=chance.randrange(1 << 20, 30 << 20),
        written=chance.randrange(1 << 20, 30 << 20),
        requests=chance.randrange(2, 20),
        files=chance.randrange(1, 4),
    )


def trial_of(recipe, chance):
    """Return a trial of the first two sources with random measurements."""
    tried = [source.name for source in recipe.sources][:2]
    trial, lines = Trial(warm_up_seconds=3.5), []
    for source in tried:
        parts = trial.parts.setdefault(source, [])
        for _ in range(3):
            tokens = chance.randrange(100_000, 900_000)
            documents = Counts(documents=chance.randrange(500, 3000), tokens=tokens, bytes=5 * tokens)
            parts.append(
                TrialPart(
                    2.5e6, 3000, documents, 1, chance.randrange(5), random_spending(chance, reads_inputs=True)
                )
            )
            for stage in (
                (*SOURCE_STAGES, "minhash2", "removals2") if len(recipe.rounds) > 1 else SOURCE_STAGES
            ):
                taken = random_spending(chance, reads_inputs=stage == "ingest")
                trial.calls.setdefault((stage, source), Calls()).add(5.0 * tokens, taken)
        for stage in ("ingest", "rules", "filter"):
            out, removed = (
                Counts(documents=90, tokens=9000),
                Counts(documents=10, tokens=chance.randrange(900)),
            )
            lines.append(Line(stage=stage, source=source, out=out, removed=removed, set_aside=Counts()))
    add_corpus_stages(trial, recipe, chance)
    trial.ledger = Ledger(lines=tuple(lines))
    trial.models = {
        source.name: {"quality": ModelTrial(100, 0.05, 0.6, 2.0)}
        for source in recipe.sources
        if source.classify and source.name in tried
    }
    return trial


def add_corpus_stages(trial, recipe, chance):
    """Add random measurements of the corpus stages, and of the work of each stage outside its calls."""
    for dedup_round in rounds_of(recipe):
        for stage in (*ROUND_STAGES, "index") if recipe.publish_bands else ROUND_STAGES:
            for _ in range(8 if stage in {"edges", "index"} else 1):
                trial.calls.setdefault((dedup_round.name_of(stage), None), Calls()).add(
                    0, random_spending(chance)
                )
    for stage, calls in {"contamination": 6, "corpus": 40}.items():
        for _ in range(calls):
            trial.calls.setdefault((stage, None), Calls()).add(0, random_spending(chance))
    for stage, _ in [*trial.calls]:
        trial.costs_outside_calls[stage] = replace(random_spending(chance), calls=0)
    audits = [
        round_with_audit.name_of("audit")
        for round_with_audit in rounds_of(recipe)
        if round_with_audit.dedup.has_signatures
    ]
    trial.costs_outside_calls |= {
        name: replace(random_spending(chance), calls=0) for name in ("prepare", *audits)
    }


def planning_of(recipe, files):
    """Return the planning of a recipe whose sources have `files` files each; the first 64 were inspected."""
    chosen = [
        [
            InputFile(url=f"{source.name}/{i}", name=f"{i}", version="1", size=50_000_000 + 1000 * i,
                      pieces=(FilePiece(rows=30_000),) if source.name == "best" else (FilePiece(), FilePiece(part=1)))
            for i in range(files)
        ]
        for source in recipe.sources
    ]  # fmt: skip
    survey = SourceSurvey(Register(), chosen, chosen, {}, [], labels=[()] * len(chosen))
    known = {
        source.name: source_files[:64] for source, source_files in zip(recipe.sources, chosen, strict=True)
    }
    chance = random.Random(7)
    return BuildPlanner(
        recipe, survey, known, trial_of(recipe, chance), replace(random_spending(chance), calls=64)
    )


def figures_of(planning, workers):
    """Return all figures of a plan except the audit texts, which the former planner did not plan."""
    made = planning.plan(workers, 8 << 30)
    stages = [stage for stage in made.stages if stage.stage != "audit texts"]
    figures = made.model_dump(
        mode="json", exclude={"made_at", "recipe", "notes", "faults", "scheduler_seconds", "files_by_folder"}
    )
    by_name = {stage.stage: asdict(stage.spent) | {"most": stage.most_clustered} for stage in stages}
    return figures | {"stages": by_name, "seconds": planning.seconds(stages, made.threads).model_dump()}


def flatten(figures, place=""):
    """Yield the path and value of each number in nested figures."""
    if isinstance(figures, dict | list):
        for name, value in figures.items() if isinstance(figures, dict) else enumerate(figures):
            yield from flatten(value, f"{place}/{name}")
    else:
        yield place, figures


@pytest.mark.parametrize("case", CASES)
def test_plan_equals_the_plan_of_the_former_planner(corpus, case, monkeypatch):
    """The former planner had a task for each job, and 7 ms of the scheduler for each task.

    It did not plan the statistics of the report.
    """
    monkeypatch.setattr(plan, "statistics_cost", lambda *_: ())
    monkeypatch.setattr(plan, "TASK_SECONDS", 0.007)
    monkeypatch.setattr(plan, "expected_tasks", lambda items, *_: items)
    changes, files, workers = CASES[case]
    figures = figures_of(planning_of(corpus.load(**changes, published_mib=1e-6), files), workers)
    assert dict(flatten(figures)) == pytest.approx(dict(flatten(GOLDEN[case])), rel=1e-6)
