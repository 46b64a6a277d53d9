"""A run holds for documents with the same content, or with content as similar as two halves of it."""

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import prose

from zyda_flows.tasks.ablation.documents import Encoder
from zyda_flows.tasks.ablation.records import (
    PartContent,
    RunInput,
    RunRecord,
    curve_of,
    hellinger,
    read_run,
    read_runs,
    reason_not_held,
    values_by_name,
    write_run,
)
from zyda_flows.tasks.signatures.exact import text_hashes
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.engine import TokenEngine

INPUT = RunInput(
    tokenizer="t",
    held_out="h",
    definition="d",
    model={"width": 32},
    settings={"tokens": 10},
    protocol="p",
    seed=1,
)


@pytest.fixture
def part(tokenizer):
    def make(names, kind=lambda words: words):
        texts = pa.array([" ".join(kind(prose(str(name), 120).split())) for name in names], pa.large_string())
        documents = Encoder(TokenEngine(tokenizer), 0).documents(texts, text_hashes(texts)[0])
        return PartContent.of("a", documents, 1.0, 1.0)

    return make


def record_of(run, parts):
    return RunRecord(
        variant="base", input=run, parts=parts, curve=((1, 2.0),), measures={"held_out": 1.5}, parameters=1,
        tokens=10, device="cpu", torch="2", seconds=1.0, finished="2026-11-30",
    )  # fmt: skip


def test_hellinger_distance():
    assert hellinger([1, 1, 0], [0, 0, 3]) == 1
    assert hellinger([1, 3], [2, 6]) == pytest.approx(0, abs=1e-7)
    first, second = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    assert hellinger([2, 8], [5, 5]) == pytest.approx(np.linalg.norm(first**0.5 - second**0.5) / 2**0.5)


def test_a_record_holds_for_similar_documents(part):
    before = part(range(80))
    record = record_of(INPUT, (before,))
    assert reason_not_held(record, INPUT, (before,)) == ""
    assert reason_not_held(record, INPUT, (part(range(3, 83)),)) == ""
    salad = part(range(80), lambda words: [words[0]] * len(words))
    assert "part a has changed: distance" in reason_not_held(record, INPUT, (salad,))
    for field, reason in [
        ("tokenizer", "another tokenizer"),
        ("held_out", "another held-out set, file of texts or evaluation set"),
        ("definition", "another definition of the variant"),
    ]:
        assert reason_not_held(record, INPUT.model_copy(update={field: "x"}), (before,)) == reason
    assert "share" in reason_not_held(record, INPUT, (before.model_copy(update={"epochs": 2.0}),))


def test_runs_with_the_same_documents_have_a_single_value(part):
    samples = [part(range(place, place + 4)) for place in (0, 4, 8)]

    def values_of(places):
        records = [
            record_of(INPUT.model_copy(update={"seed": seed}), (samples[place],)).model_copy(
                update={"measures": {"held_out": float(seed)}}
            )
            for seed, place in enumerate(places)
        ]
        return values_by_name(records)["held_out"]

    assert values_of([0, 1, 2]) == [0, 1, 2]
    assert values_of([0, 1, 0, 1, 0]) == [2, 2]
    assert values_of([2, 2, 2]) == [0, 1, 2]


def test_records_are_read_back(tmp_path, part):
    record = record_of(INPUT, (part(range(4)),))
    folder = Folder(str(tmp_path))
    write_run(folder, record)
    assert read_run(folder, record.key) == record
    assert read_runs(folder) == [record]
    assert read_run(folder, "0" * 20) is None


def test_a_curve_has_the_means_of_its_steps():
    assert curve_of(np.arange(1.0, 5)) == ((1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0))
    curve = curve_of(np.arange(1.0, 601))
    assert len(curve) == 200
    assert curve[0] == (3, 2.0)
    assert curve[-1] == (600, 599.0)
