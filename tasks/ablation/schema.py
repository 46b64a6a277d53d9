"""Print the JSON Schema of experiments, with which editors complete and check experiment files.

python -m zyda_flows.tasks.ablation.schema > experiments/schema.json
"""

from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.recipe.schema import schema

if __name__ == "__main__":
    print(schema(Experiment), end="")  # noqa: T201
