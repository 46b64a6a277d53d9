"""Experiment files: the packaged ones load, the schema is that of the model, and faults have their lines."""

from pathlib import Path

import pytest
import yaml
from small_corpus import REPOSITORY

from zyda_flows.tasks.ablation.experiment import Experiment, load_experiment
from zyda_flows.tasks.ablation.model import shape_of
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.schema import schema

FOLDER = REPOSITORY / "experiments"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_packaged_experiments_load(path):
    experiment = load_experiment(str(path))
    for variant in experiment.variants:
        assert variant.mixture is None or Path(variant.mixture).is_file()
    for parameters in experiment.model.parameters:
        assert shape_of(parameters, 50_277).parameters == pytest.approx(parameters, rel=0.25)


def test_schema_is_that_of_the_model():
    assert (FOLDER / "schema.json").read_text() == schema(Experiment)


FAULTS = {
    "two origins": ({"variants": [{"name": "a", "corpus": "x", "mixture": "y"}]}, "variants[0]: expected one of `corpus`, `recipe` and `mixture`"),
    "equal names": ({"variants": [{"name": "a", "corpus": "x"}] * 2}, "variants: two entries have the name a"),
    "two models": ({"model": {"parameters": "1M", "base": "x"}}, "model: expected either `parameters` or `base`"),
    "too large": ({"model": {"parameters": "1B"}}, "model: parameters: expected 50K to 150M"),
    "a repeat": ({"repeats": 1}, "repeats: expected at least 2"),
    "few tokens": ({"tokens": 2000}, "tokens: expected at least a step of 4,096 tokens"),
    "without controls": ({"controls": {"equal": False, "degraded": None}}, "a single variant can only be compared with controls"),
    "a number of tokens": ({"tokens": "many"}, "tokens: expected a number of tokens: 1000000, 1e9, 100B, 5T"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_line(name, tmp_path):
    changes, message = FAULTS[name]
    whole = {
        "name": "e", "storage": "s", "tokenizer": "t.json", "variants": [{"name": "a", "corpus": "x"}],
        "model": {"parameters": "1M"}, "tokens": "1M",
    }  # fmt: skip
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(whole | changes))
    with pytest.raises(BadRecipe) as error:
        load_experiment(str(path))
    (fault,) = error.value.faults
    assert fault.startswith(f"{path}:")
    assert message in fault
