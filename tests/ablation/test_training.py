"""Trainings: the rate, the order of tokens, and the same bits after a kill."""

import math
import os
import signal

import numpy as np
import pytest
import torch
from killed_child import run_in_child
from safetensors.torch import load_file, save_file
from small_corpus import prose

from zyda_flows.tasks.ablation.model import new_model, shape_of, shapes
from zyda_flows.tasks.ablation.training import Checkpoint, TokenStream, TrainingSettings, train
from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.engine import TokenIds

VOCABULARY, SEQUENCE = 97, 16
SETTINGS = TrainingSettings(SEQUENCE, batch=4, tokens=64 * 30, rate=1e-2, warmup=0.1)
KILL_AT = 13


def small_stream():
    ids = np.frombuffer(prose("stream", 900).encode(), np.uint8).astype(np.uint32) % VOCABULARY
    ends = np.array([0, 5, 5, 700, 1800, 2100, len(ids)])
    return TokenStream(TokenIds(ids, ends), np.array([3, 0, 5, 2, 4, 3, 1]))


def small_model(seed=1):
    return new_model(next(shapes(VOCABULARY)), SEQUENCE, seed)


def test_the_stream_has_the_documents_in_their_order():
    stream = small_stream()
    whole = [token for document in stream.order for token in stream.documents.of(document).tolist()]
    assert len(stream) == len(whole)
    for start, stop in [(0, 1), (0, len(whole)), (1098, 1107), (37, 3000), (len(whole) - 1, len(whole))]:
        assert stream.read(start, stop).tolist() == whole[start:stop]
    with pytest.raises(IndexError):
        stream.read(0, len(whole) + 1)


@pytest.mark.parametrize("schedule", ["linear", "1-sqrt"])
def test_the_rate_rises_and_falls_to_zero(schedule):
    settings = TrainingSettings(10, 10, 10_000, 0.5, 0.04, schedule)
    rates = [settings.rate_at(step) for step in range(settings.steps + 1)]
    assert rates[:5] == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5])
    half = 0.5 if schedule == "linear" else 1 - math.sqrt(0.5)
    assert rates[52] == pytest.approx(0.5 * half)
    assert rates[100] == 0


def test_a_shape_has_its_number_of_parameters():
    shape = shape_of(1e6, 4096)
    model = new_model(shape, SEQUENCE, 0)
    assert sum(parameter.numel() for parameter in model.parameters()) == shape.parameters == 926_336
    with pytest.raises(
        BadRequest, match="no Llama has about 1,000,000 parameters with a vocabulary of 50,280"
    ):
        shape_of(1e6, 50_280)


def test_a_killed_training_continues_with_the_same_bits(tmp_path):
    expected = small_model()
    curve = train(expected, small_stream(), SETTINGS)
    assert curve[0] == pytest.approx(math.log(VOCABULARY), rel=0.05)
    assert curve[-1] < curve[0] - 0.5
    checkpoint = Checkpoint(Folder(str(tmp_path)), "run.safetensors", seconds=0)
    status = run_in_child(lambda: train(small_model(), small_stream(), SETTINGS, checkpoint, kill))
    assert status == -signal.SIGKILL
    assert len(load_file(tmp_path / "run.safetensors")["losses"]) == KILL_AT - 1
    model = small_model(seed=2)
    assert train(model, small_stream(), SETTINGS, checkpoint).tolist() == curve.tolist()
    for own, other in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(own, other)
    assert not (tmp_path / "run.safetensors").exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "renamed", "not signed"])
def test_a_damaged_checkpoint_begins_the_training_again(tmp_path, caplog, damage):
    expected = train(small_model(), small_stream(), SETTINGS)
    checkpoint = Checkpoint(Folder(str(tmp_path)), "run.safetensors", seconds=0)

    def stop(step, loss):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small_model(), small_stream(), SETTINGS, checkpoint, stop)
    path = tmp_path / "run.safetensors"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-9])
    elif damage == "flipped":
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif damage == "renamed":
        path.write_bytes(content.replace(b"weight model", b"weighs model"))
    else:
        save_file(load_file(path), path)
    assert train(small_model(), small_stream(), SETTINGS, checkpoint).tolist() == expected.tolist()
    assert "run.safetensors is damaged: the training begins again" in caplog.text


def test_a_loss_that_is_not_finite_raises(tmp_path):
    model = small_model()
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    with pytest.raises(BadRequest, match="the loss of step 1 is not finite; lower `rate`"):
        train(model, small_stream(), SETTINGS)


def kill(step, loss):
    if step == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
