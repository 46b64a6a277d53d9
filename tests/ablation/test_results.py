"""Results: claims per task at two sizes, claims that the equal control withdraws, and the sentences about them."""

from types import SimpleNamespace

import pytest
from small_corpus import TOKENIZER

from zyda_flows.flows.reporting.ablation_page import page_of
from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.ablation.held_out import HeldOutSet
from zyda_flows.tasks.ablation.planned_runs import DEGRADED, EQUAL
from zyda_flows.tasks.ablation.prepared import Prepared, PreparedVariant
from zyda_flows.tasks.ablation.protocol import Protocol
from zyda_flows.tasks.ablation.records import RunInput, RunRecord
from zyda_flows.tasks.ablation.results import control_sentences, result_of, sentence

NOISE = (-0.01, 0.0, 0.01)
FILES = [{"name": name, "url": f"{name}.parquet"} for name in ("a", "b")]


def experiment_of(**changes):
    variants = [{"name": "base", "corpus": "x"}, {"name": "other", "corpus": "y"}]
    fields = {
        "name": "e", "storage": "s", "tokenizer": str(TOKENIZER), "variants": variants, "tokens": 10_000,
        "model": {"parameters": ["1M", "4M"]}, "evaluations": FILES,
    }  # fmt: skip
    return Experiment.model_validate({**fields, **changes})


def result_with(values, **changes):
    """Return the result for the mean of each measure, by size and variant."""
    experiment = experiment_of(**changes)
    variants = tuple(PreparedVariant(name=name, definition=name, samples=((),)) for name in ("base", "other"))
    prepared = Prepared(
        separator=0, vocabulary=10, tokenizer="t", held_out="h", variants=variants, texts={}, questions={},
        documents={"source:x": 7}, excluded=2,
        held_out_set=HeldOutSet(hashes={}),
    )  # fmt: skip
    runs, records = [], {}
    for (size, variant), measures in values.items():
        for seed, noise in enumerate(NOISE):
            run = SimpleNamespace(size=size, variant=variant, key=f"{size} {variant} {seed}")
            given = RunInput(
                tokenizer="t", held_out="h", definition="d", model={}, settings={}, protocol="p", seed=seed
            )
            runs.append(run)
            records[run.key] = RunRecord(
                variant=variant, input=given, parts=(), curve=((1, 3.0), (10, 2.0 + noise)), parameters=10 + size,
                measures={name: value + noise for name, value in measures.items()}, tokens=100, device="CPU, one core",
                torch="2", seconds=1.5, finished="now",
            )  # fmt: skip
    return result_of(experiment, prepared, Protocol.of(experiment), records, runs)


def measures(held_out, **tasks):
    return {"held_out": held_out, **{name.replace("_", ":"): value for name, value in tasks.items()}}


VALUES = {
    (0, "base"): measures(3, gold_a=2, gold_b=2),
    (0, "other"): measures(2.5, gold_a=1, gold_b=1),
    (0, EQUAL): measures(3, gold_a=2, gold_b=2),
    (0, DEGRADED): measures(4, gold_a=2, gold_b=2),
    (1, "base"): measures(3, gold_a=2, gold_b=2),
    (1, "other"): measures(3, gold_a=1, gold_b=3),
}


def test_a_claim_about_a_task_needs_both_sizes():
    result = result_with(VALUES)
    assert [(each.measure, each.variant) for each in result.tasks] == [("gold:a", "other")]
    (verdict,) = result.comparisons
    assert (verdict.is_claimed, verdict.is_better) == (True, True)
    assert verdict.difference == pytest.approx(-0.5)
    assert sentence(verdict, "base").startswith(
        "other is better than base by 0.5000 bits per byte (interval 0.4"
    )
    assert not any(each.is_claimed for each in result.others)
    assert control_sentences(result)[0].startswith("Equal control: passed.")
    assert control_sentences(result)[1].startswith(
        "Degraded control: passed. It is worse by 1.0000 bits per byte"
    )
    trainings = result.trainings
    assert (trainings.seconds, trainings.tokens, trainings.runs) == (27.0, 1800, 18)


def test_claims_are_withdrawn_if_the_equal_control_has_one():
    result = result_with({**VALUES, (0, EQUAL): measures(3.2, gold_a=2, gold_b=2)})
    assert result.equal.is_claimed
    assert not result.comparisons[0].is_claimed
    assert result.tasks == ()
    assert "no claim of this experiment holds" in control_sentences(result)[0]


def test_a_degraded_control_that_is_not_worse_is_stated():
    for value in (3.0, 2.0):
        result = result_with({**VALUES, (0, DEGRADED): measures(value, gold_a=2, gold_b=2)})
        for text in (page_of(result).html(), page_of(result).card()):
            assert "This size of the experiment cannot see even a degraded corpus" in text


def test_page_and_card_state_the_cost():
    result = result_with(VALUES)
    for text in (page_of(result).html(), page_of(result).card()):
        for fact in (
            "CPU, one core",
            "18 of 100 tokens each, 1,800 in all",
            "27 s of all runs together",
            "0, 1, 2",
        ):
            assert fact in text
    assert page_of(result).html().count("<svg") == 2
    assert "gold:a: other is better than base" in page_of(result).html()
