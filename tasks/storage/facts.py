"""The base class of the facts that stages write in their manifests."""

from typing import Any

from zyda_flows.tasks.storage.records import Record


class Facts(Record):
    """Values that a stage writes in its manifest for later stages, and that no other field has."""

    def written(self) -> dict[str, Any]:
        """Return the facts as JSON values for a manifest."""
        return self.model_dump(mode="json")
