"""Prefect's cache of stages: sealed receipts in the corpus folder, by the keys of their manifests."""

from typing import Literal

from prefect.context import FlowRunContext
from prefect.filesystems import LocalFileSystem, RemoteFileSystem
from prefect.serializers import Serializer

from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.artifacts import RESULTS, Receipt
from zyda_flows.tasks.storage.records import Record, digest_of, seal, unseal


class CachedReceipts(Record):
    """The cached result of a task: the receipt of a stage, or the receipts of a group of sources."""

    receipts: tuple[Receipt, ...]
    is_of_group: bool


class SealedReceipts(Serializer):  # no type argument: Prefect cannot register a generic class
    """Write receipts as sealed records, so that a changed cache file is not used."""

    type: Literal["zyda-receipts"] = "zyda-receipts"

    def dumps(self, obj: Receipt | list[Receipt]) -> bytes:
        is_of_group = isinstance(obj, list)
        receipts = obj if isinstance(obj, list) else [obj]
        return seal(CachedReceipts(receipts=tuple(receipts), is_of_group=is_of_group), RESULTS)

    def loads(self, blob: bytes) -> Receipt | list[Receipt]:
        # The key needs no check here: `forget_results_of_nothing` has checked it.
        remembered = unseal(blob, CachedReceipts, RESULTS)
        return [*remembered.receipts] if remembered.is_of_group else remembered.receipts[0]


def keep_results_in_corpus(recipe: Recipe) -> None:
    """Make Prefect store the results of this flow run's tasks in the corpus: in a folder, or by a saved block."""
    results = recipe.folder.folder(RESULTS)
    storage = LocalFileSystem(basepath=results.path("")) if results.is_local else saved_block(results.url)
    context = FlowRunContext.get()
    if context is not None:
        context.result_store = context.result_store.model_copy(update={"result_storage": storage})


def saved_block(url: str) -> RemoteFileSystem:
    """Save and return Prefect's block for a URL in a store; the block contains no secrets."""
    block = RemoteFileSystem(basepath=url)
    block.save(f"zyda-{digest_of(url)}", overwrite=True)
    return block
