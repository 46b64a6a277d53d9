"""What stages say in their manifests, each in a type of its own."""

from typing import Any

from zyda_flows.tasks.storage.records import Record


class Facts(Record):
    """What a stage says in its manifest for those after it, and nothing else has a field for."""

    def written(self) -> dict[str, Any]:
        """Return them as they stand in a manifest."""
        return self.model_dump(mode="json")
