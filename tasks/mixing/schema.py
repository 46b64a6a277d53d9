"""The JSON Schema of a mixture, by which editors complete and check one.

python -m tasks.mixing.schema > mixtures/schema.json
"""

from tasks.mixing.mixture import Mixture
from tasks.recipe.schema import schema

if __name__ == "__main__":
    print(schema(Mixture), end="")  # noqa: T201
