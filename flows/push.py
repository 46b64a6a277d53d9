"""The flow that uploads a published corpus to the Hugging Face hub."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_link_artifact, create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger

from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.report import Sample
from zyda_flows.flows.server.liveness import with_heartbeat
from zyda_flows.flows.server.run_names import name_by_corpus
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.publish.pushing import push_of
from zyda_flows.tasks.recipe.loading import load_recipe


@flow(name="push", flow_run_name=name_by_corpus("push"), persist_result=False)
def push(
    recipe: str, name: str, private: bool = False, storage: str | None = None, sample: Sample | None = None
) -> str:
    """Upload the published corpus to the hub, where all files become visible at the same time; return its page.

    The process that runs the flow needs a token of the hub: HF_TOKEN in its environment, or `hf auth login`.

    Args:
        recipe: The recipe's YAML file, as a path on the machine that runs the flow.
        name: The dataset repository on the hub, OWNER/NAME.
        private: Create a missing repository as a private repository.
        storage: The folder of the corpus, instead of the recipe's `storage`: any fsspec URL.
        sample: The part of the input that was used. A sample is a separate corpus.
    """
    log = get_run_logger()
    with with_heartbeat("zyda-push"):
        corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
        pushed = push_of(corpus_recipe, name, private=private)
        for sentence in pushed.sentences():
            log.info("%s", sentence)
        if pushed.to_send or pushed.to_delete:
            pushed.send(UploadProgress(pushed.size))
        pushed.finish()
        create_link_artifact(
            pushed.repository.page, pushed.repository.name, artifact_key(corpus_recipe, "pushed")
        )
    page = pushed.repository.page
    return completed_state(page, f"{corpus_recipe.corpus} is at {page}.")


class UploadProgress:
    """Shows in the dashboard the share of the bytes that has been sent. size: of all files, in bytes."""

    def __init__(self, size: int) -> None:
        self.size, self.sent = size, 0
        self.bar: Any = create_progress_artifact(progress=0.0, description="Sent to the hub")

    def __call__(self, size: int) -> None:
        self.sent += size
        update_progress_artifact(self.bar, progress=100 * min(1.0, self.sent / max(1, self.size)))
