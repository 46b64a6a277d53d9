"""The page on which people judge a sample of decisions: served by `zyda look`, or as a single file.

The page loads no resources, and its content policy allows only its own script. Texts are data in it, never markup.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from zyda_flows.tasks.lookup.judgements import Review
from zyda_flows.tasks.lookup.samples import QUESTIONS, SampleItem, described


def look_page(name: str, sample: dict[str, Any]) -> str:
    """Return the page with a sample, as HTML."""
    folder = files("zyda_flows.flows.reporting")
    script = (folder / "look.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = Environment(autoescape=True).from_string((folder / "look.html").read_text(encoding="utf-8"))
    inert = json.dumps(sample).replace("<", "\\u003c")  # a text with "<" could end its element
    return template.render(name=name, sample=inert, script=script, digest=f"sha256-{digest}")


def empty_sample() -> dict[str, Any]:
    """Return the sample of the page before its login: the page requests the actual sample after it."""
    return {"is_served": True, "title": "", "question": "", "items": []}


def sample_as_json(items: Sequence[SampleItem], review: Review, *, is_served: bool) -> dict[str, Any]:
    """Return a sample in JSON for the page. Ids are strings, because JavaScript's numbers have 53 bits."""
    return {
        "is_served": is_served,
        "title": f"{described(review.options)}, seed {review.options.seed}",
        "question": QUESTIONS[review.options.what],
        "looking": review.model_dump(mode="json", exclude={"judgements"}),
        "items": [
            item.model_dump(mode="json")
            | {"doc_id": str(item.doc_id), "other": None if item.other is None else str(item.other)}
            for item in items
        ],
    }
