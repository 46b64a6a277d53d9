"""What stages say in their manifests, each in a type of its own."""

from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from zyda_flows.tasks.storage.records import Record


class Facts(Record):
    """What a stage says in its manifest for those after it, and nothing else has a field for.

    A field that is None is not written: what was written before there was such a field has the same identity.
    """

    @model_serializer(mode="wrap")
    def without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value is not None}

    def written(self) -> dict[str, Any]:
        """Return them as they stand in a manifest."""
        return self.model_dump(mode="json", by_alias=True)
