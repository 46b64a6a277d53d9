"""Semantic rounds: documents with the same content in other words, found by the vectors of models."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from zyda_flows.tasks.recipe.dedup import Against, Dedup, Prefer, Reason, Scope, Sentences
from zyda_flows.tasks.recipe.values import Flag, Number, Strict

LOCAL = ("/", "~", "file:/")  # beginnings of paths, whose folders may have personal names
MODEL = "a hub name or a local folder: an encoder of sentences, or a model of token ids"


def public_name(model: str) -> str:
    """Return the name of a model without the folders of a local path."""
    return f"…/{PurePath(model).name}" if model.startswith(LOCAL) else model


class Semantic(Strict):
    """The models and thresholds of a semantic round."""

    model: str = Field(
        min_length=1,
        description=f"The model that confirms pairs: {MODEL}. It reads whole texts, but only of documents in "
        "a proposed pair.",
    )
    revision: str | None = Field(None, description="For a hub name: a branch, tag or commit.")
    cosine: Annotated[float, Number] = Field(
        0.95, gt=0, le=1, description="The lowest cosine of the vectors of a pair, by `model`."
    )
    propose: str | None = Field(
        None,
        min_length=1,
        description=f"The model that proposes pairs: {MODEL}. It reads all documents, so it should be cheap. If "
        "omitted, `model` reads all documents.",
    )
    propose_revision: str | None = Field(
        None, description="For a hub name in `propose`: a branch, tag or commit."
    )
    propose_cosine: Annotated[float, Number] | None = Field(
        None,
        gt=0,
        lt=1,
        description="The lowest cosine of a proposed pair, by the vectors of `propose` without their mean. Lower "
        "values need more bands. Default: 0.85.",
    )
    facts: Literal["same", "ignore"] = Field(
        "same",
        description="`same`: a document is removed only if the kept document has its numbers, negations, "
        "identifiers and names, as far as the word lists know them, both are in a language whose words are known, "
        "and it is a copy or a text in other words, no edited version. "
        "`ignore`: the cosine alone decides, which removes documents with other facts.",
    )
    remove: Flag = Field(
        False,
        description="Remove duplicates. Otherwise the round publishes the pairs, and keeps all documents.",
    )

    @model_validator(mode="after")
    def check_propose(self) -> "Semantic":
        if self.propose_revision and not self.propose:
            raise ValueError("propose_revision: it needs `propose`")
        return self

    @property
    def proposing_cosine(self) -> float:
        """The lowest cosine of a proposed pair."""
        return 0.85 if self.propose_cosine is None else self.propose_cosine


class SemanticRound(Dedup):
    """A round that finds documents with the same content in other words. It has no keys of texts."""

    has_keys = False

    semantic: Semantic = Field(description="Find documents with the same content in other words.")
    scope: Scope = "across"
    prefer: Prefer = ("source",)
    against: Against = ()

    @model_validator(mode="before")
    @classmethod
    def refuse_other_settings(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if misplaced := [name for name in given if name not in cls.model_fields and given[name] is not None]:
            raise ValueError(f"semantic: {misplaced[0]} applies to other kinds of rounds; remove it")
        return {name: value for name, value in given.items() if name in cls.model_fields}

    @property
    def compares_texts(self) -> bool:
        return True

    @property
    def key_bands(self) -> int:
        return 0

    @property
    def key_parameters(self) -> dict[str, Any]:
        return {}

    @property
    def sentences(self) -> Sentences:
        settings = self.semantic
        proposing, confirming = public_name(settings.propose or settings.model), public_name(settings.model)
        content = "the same content and facts" if settings.facts == "same" else "the same content"
        return Sentences(
            Reason("same_content", f"a preferred document has {content} in other words"),
            Reason(
                "content_in_other_corpus",
                f"a document with {content} is in another corpus that this corpus is compared with",
            ),
            f"Pairs of documents with the same content were proposed by the vectors of {proposing} (a cosine of "
            f"{settings.proposing_cosine:g} or more) and confirmed by {confirming} (a cosine of "
            f"{settings.cosine:g} or more).",
            (f"vectors of {proposing}",),
        )

    def kept_sentence(self) -> str:
        if not self.semantic.remove:
            return "No document was removed: the pairs are published."
        if self.semantic.facts == "ignore":
            return super().kept_sentence()
        return (
            "A document was removed only if it is a copy of a kept document or a text in other words, no edited "
            "version, and the kept document has its numbers, negations, identifiers and names, as far as the word "
            "lists know them. " + super().kept_sentence()
        )

    def removal_rules(self) -> Iterator[str]:
        yield from super().removal_rules()
        yield f"confirmed: cosine of {self.semantic.cosine:g} or more, facts: {self.semantic.facts}"
        if not self.semantic.remove:
            yield "remove: false"
