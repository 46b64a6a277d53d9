"""The settings of a semantic round, and its models."""

from zyda_flows.tasks.quality.similarity_models import SimilarityModel, similarity_model
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.workers.engine import Engine


def semantic_of(dedup_round: Round) -> SemanticRound:
    """Return the settings of a semantic round."""
    assert isinstance(dedup_round.dedup, SemanticRound)
    return dedup_round.dedup


def is_semantic(dedup_round: Round, _: str) -> bool:
    return isinstance(dedup_round.dedup, SemanticRound)


def proposing_model(dedup_round: Round) -> SimilarityModel:
    """Return the model that proposes pairs. Raises BadInput for a model that cannot be used."""
    settings = semantic_of(dedup_round).semantic
    named = settings.propose or settings.model
    revision = settings.propose_revision if settings.propose else settings.revision
    field = "propose" if settings.propose else "model"
    return similarity_model(f"semantic.{field}", named, revision)


def device_of(dedup_round: Round) -> str | None:
    return "cpu" if dedup_round.recipe.engine is Engine.CPU else None


def confirming_model(dedup_round: Round) -> SimilarityModel:
    """Return the model that confirms pairs. Raises BadInput for a model that cannot be used."""
    settings = semantic_of(dedup_round).semantic
    return similarity_model("semantic.model", settings.model, settings.revision)


def check_models(dedup_round: Round) -> None:
    """Check the models of a round. Raises BadInput for a model that cannot be used."""
    proposing_model(dedup_round)
    confirming_model(dedup_round)
