"""Compute the likelihood of each option of evaluation sets with lm-eval. Its folder must be on the path.

python evaluate_options.py MODEL SETS ANSWERS. SETS is a JSON file with the task and the file of each set. An answer is
the log likelihood of each option of each question.
"""

import json
import sys
from pathlib import Path

import lm_eval
import yaml
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM

PLACES = {
    "arc_easy": "arc/arc_easy", "openbookqa": "openbookqa/openbookqa", "hellaswag": "hellaswag/hellaswag",
    "piqa": "piqa/piqa", "winogrande": "winogrande/default", "sciq": "sciq/sciq",
}  # fmt: skip


def local_task(task, file):
    """Write a task of lm-eval that reads a local file instead of a data set of the hub; return its file."""
    (included,) = (Path(lm_eval.__file__).parent / "tasks").rglob(f"{PLACES[task]}.yaml")
    content = {
        "include": str(included), "task": f"local_{task}", "dataset_path": "json", "dataset_name": None,
        "dataset_kwargs": {"data_files": {"validation": file}}, "num_fewshot": 0,
        "training_split": None, "validation_split": "validation", "test_split": None,
    }  # fmt: skip
    path = Path(file).with_suffix(".yaml")
    path.write_text(yaml.safe_dump(content))
    return str(path)


if __name__ == "__main__":
    model, sets, answers = sys.argv[1:]
    found = {}
    for task, file in json.loads(Path(sets).read_text()).items():
        reader = HFLM(pretrained=model, device="cpu", dtype="float32", add_bos_token=True, batch_size=1)
        result = simple_evaluate(
            reader, tasks=[local_task(task, file)], log_samples=True, bootstrap_iters=0, verbosity="ERROR"
        )
        (samples,) = result["samples"].values()
        samples.sort(key=lambda sample: sample["doc_id"])
        found[task] = [[float(option[0][0]) for option in sample["resps"]] for sample in samples]
    Path(answers).write_text(json.dumps(found))
