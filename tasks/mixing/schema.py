"""The JSON Schema of a mixture, by which editors complete and check one.

python -m zyda_flows.tasks.mixing.schema > mixtures/schema.json
"""

from zyda_flows.tasks.mixing.mixture import Mixture
from zyda_flows.tasks.recipe.schema import schema

if __name__ == "__main__":
    print(schema(Mixture), end="")  # noqa: T201
