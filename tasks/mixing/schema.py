"""Print the JSON Schema of mixtures, with which editors complete and check mixture files.

python -m zyda_flows.tasks.mixing.schema > mixtures/schema.json
"""

from zyda_flows.tasks.mixing.mixture import Mixture
from zyda_flows.tasks.recipe.schema import schema

if __name__ == "__main__":
    print(schema(Mixture), end="")  # noqa: T201
