"""The likelihoods of options equal those of lm-eval, for its own tasks with local files.

`make test-readers` installs lm-eval into the folder .readers. Without it this test is skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_corpus import REPOSITORY, TOKENIZER, prose
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from zyda_flows.tasks.ablation.measures import continuation_nats
from zyda_flows.tasks.ablation.model import new_model, shape_of
from zyda_flows.tasks.ablation.questions import QuestionEncoder, read_questions

READERS = REPOSITORY / ".readers"
pytestmark = pytest.mark.skipif(
    not (READERS / "lm_eval").is_dir(), reason="make test-readers installs lm-eval"
)
END, SEQUENCE, COUNT = "<|endoftext|>", 256, 8


def text(name, words=6):
    return prose(f"lm-eval {name}", words)


def choices(name, count=4):
    return [text(f"{name} {i}", 2 + i) for i in range(count)]


SETS = {
    "arc_easy": lambda i: {
        "id": f"{i}", "question": f"{text(i)}?", "answerKey": "ABCD"[i % 4],
        "choices": {"text": choices(i), "label": ["A", "B", "C", "D"]},
    },
    "openbookqa": lambda i: {
        "id": f"{i}", "question_stem": text(i), "answerKey": "ABCD"[i % 4],
        "choices": {"text": choices(i), "label": ["A", "B", "C", "D"]},
    },
    "hellaswag": lambda i: {
        "ind": i, "activity_label": "Cooking", "ctx_a": f"{text(i)} [step] now.", "ctx_b": "he", "ctx": "",
        "endings": choices(i), "label": f"{i % 4}", "split": "val",
    },
    "piqa": lambda i: {"goal": text(i), "sol1": text(f"{i} a"), "sol2": text(f"{i} b", 3), "label": i % 2},
    "winogrande": lambda i: {
        "sentence": f"{text(i)} so _ {text(f'{i} rest')}.", "option1": "Sarah", "option2": "Maria",
        "answer": f"{1 + i % 2}",
    },
    "sciq": lambda i: {
        "question": f"{text(i)}?", "correct_answer": "d", "support": text(f"{i} support", 20),
        **{f"distractor{j}": text(f"{i} {j}", 2) for j in (1, 2, 3)},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a model with unequal likelihoods of tokens, and its folder, whose tokenizer begins with END."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    model = new_model(shape_of(3e5, tokenizer.get_vocab_size()), SEQUENCE, 1).eval()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(20)
    model.save_pretrained(folder)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{END} $A", pair=None, special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END, "eos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": SEQUENCE}))
    return model, folder


def test_likelihoods_equal_those_of_lm_eval(saved, tmp_path):
    model, folder = saved
    files = {}
    for name, row in SETS.items():
        files[name] = str(tmp_path / f"{name}.jsonl")
        Path(files[name]).write_text("".join(json.dumps(row(i)) + "\n" for i in range(COUNT)))
    (tmp_path / "sets.json").write_text(json.dumps(files))
    script = Path(__file__).with_name("evaluate_options.py")
    environment = {
        **os.environ,
        "PYTHONPATH": str(READERS),
        "HF_HOME": str(tmp_path),
        "PYTHONWARNINGS": "ignore",
    }
    subprocess.run(
        [sys.executable, "-P", script, folder, tmp_path / "sets.json", tmp_path / "answers.json"],
        check=True,
        env=environment,
    )
    theirs = json.loads((tmp_path / "answers.json").read_text())
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    encoder = QuestionEncoder(tokenizer, tokenizer.token_to_id(END))
    for name, file in files.items():
        options = read_questions(name, file, COUNT, encoder)
        pairs = zip(
            options.column("context").to_pylist(), options.column("continuation").to_pylist(), strict=True
        )
        nats = continuation_nats(model, [*pairs], SEQUENCE)
        starts = np.flatnonzero(np.diff(options.column("question").to_numpy(), prepend=-1))[1:]
        ours = sorted([round(-float(value), 2) for value in values] for values in np.split(nats, starts))
        expected = sorted([round(value, 2) for value in values] for values in theirs[name])
        assert np.array(ours) == pytest.approx(np.array(expected), abs=0.02), name
        assert np.ptp(np.array(ours)) > 1
