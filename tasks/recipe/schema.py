"""The JSON Schema of a recipe. Editors use it to complete and check recipes.

python -m zyda_flows.tasks.recipe.schema > recipes/schema.json
"""

import json

from pydantic import BaseModel

from zyda_flows.tasks.recipe.fields import Recipe

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(model: type[BaseModel] = Recipe) -> str:
    """Return the JSON Schema of a model as text."""
    content = {"$schema": DIALECT, **model.model_json_schema(mode="validation")}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema(), end="")  # noqa: T201
