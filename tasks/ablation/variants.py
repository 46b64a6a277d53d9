"""The variants of an experiment, opened: their corpora, parts and shares, and the documents that a run needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zyda_flows.tasks.ablation.drawing import available_tokens
from zyda_flows.tasks.ablation.experiment import Experiment, Variant
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, BadRecipe, NoCorpus, one_line
from zyda_flows.tasks.mixing.mixture import Part, load_mixture
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.storage.records import digest_of

MOST_EPOCHS = 1000.0
NOT_OF_CONTENT = {"name", "storage"}  # fields of a recipe
# More tokens are drawn than needed, because near-duplicates of held-out documents are left out.
SPARE, SPARE_TOKENS = 1.1, 100_000


@dataclass(frozen=True)
class OpenedVariant:
    """A variant. parts, available, shares and epochs: by part.

    available: the published tokens. shares: of the tokens of a run; the sum is 1. epochs: how often the run reads
    a drawn document. target: tokens of the large run.
    """

    name: str
    corpora: tuple[PublishedCorpus, ...]
    parts: tuple[Part, ...]
    available: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    epochs: tuple[float, ...] = ()
    target: float | None = None

    @property
    def names(self) -> list[str]:
        return [part.name for part in self.parts]

    @property
    def definition(self) -> str:
        """A digest of the parts and of the recipes of the corpora, as published; shares and files are not in it."""
        recipes = [
            {name: value for name, value in corpus.manifest.recipe.items() if name not in NOT_OF_CONTENT}
            for corpus in self.corpora
        ]
        parts = [part.model_dump(exclude={"weight", "epochs", "max_epochs"}) for part in self.parts]
        return digest_of([recipes, parts])

    def needs(self, tokens: float) -> list[float]:
        """Return the tokens of different documents of each part that a run of `tokens` reads."""
        return [tokens * share / epochs for share, epochs in zip(self.shares, self.epochs, strict=True)]


def open_variants(experiment: Experiment) -> list[OpenedVariant]:
    """Open the variants. Raises BadRecipe for missing corpora, other parts, and a budget above a corpus."""
    opened, faults = list[OpenedVariant](), list[str]()
    for number, described in enumerate(experiment.variants):
        try:
            opened.append(open_variant(described))
        except (BadRecipe, BadInput, NoCorpus) as error:
            faults += [str(experiment.fault(one_line(fault), "variants", number)) for fault in error.faults]
    if faults:
        raise BadRecipe(*faults)
    first = opened[0]
    for number, variant in enumerate(opened):
        if experiment.is_pinned and {*variant.names} != {*first.names}:
            other = sorted({*variant.names} ^ {*first.names})[0]
            raise experiment.fault(
                f"weights: pinned: {variant.name} and {first.name} have different parts ({other}); "
                "use `weights: own`",
                "variants",
                number,
            )
        shares = dict(zip(first.names, first.shares, strict=True)) if experiment.is_pinned else {}
        pinned = [shares.get(name, share) for name, share in zip(variant.names, variant.shares, strict=True)]
        opened[number] = with_epochs(replace(variant, shares=tuple(pinned)), experiment)
        expect_enough(experiment, opened[number], number)
    return opened


def open_variant(variant: Variant) -> OpenedVariant:
    """Open the corpora of a variant. Raises BadRecipe, BadInput for its `where`, and NoCorpus."""
    if variant.mixture is not None:
        return open_mixture(variant)
    if variant.recipe is not None:
        try:
            corpus = PublishedCorpus.of(load_recipe(variant.recipe))
        except NoCorpus as error:
            raise NoCorpus(f"{variant.recipe} is not built; zyda build {variant.recipe} builds it") from error
    else:
        corpus = PublishedCorpus.at(variant.corpus or "")
    parts = [Part(name=name, source=name, where=variant.where) for name in corpus.manifest.ledger.sources]
    return with_natural_shares(OpenedVariant(variant.name, (corpus,), tuple(parts)))


def with_natural_shares(variant: OpenedVariant) -> OpenedVariant:
    """Return a variant with its available tokens as shares. Parts without tokens are dropped."""
    available = available_tokens(variant.corpora, variant.parts)
    rows = [row for row in zip(variant.parts, available, strict=True) if row[1]]
    if not rows:
        raise BadRecipe(f"{variant.name} has no documents")
    total = sum(tokens for _, tokens in rows)
    return replace(
        variant,
        parts=tuple(part for part, _ in rows),
        available=tuple(tokens for _, tokens in rows),
        shares=tuple(tokens / total for _, tokens in rows),
    )


def open_mixture(variant: Variant) -> OpenedVariant:
    """Open a mixture with its weights."""
    mixture = load_mixture(variant.mixture or "")
    if mixture.repeat:
        raise BadRecipe(f"{variant.mixture}: repeat: an ablation does not repeat by sizes of clusters")
    corpora = tuple(PublishedCorpus.at(url) for url in mixture.corpora)
    available = available_tokens(corpora, mixture.parts)
    weights = [
        part.weight if part.weight is not None else (part.epochs or 0) * tokens
        for part, tokens in zip(mixture.parts, available, strict=True)
    ]
    if empty := [p.name for p, w, t in zip(mixture.parts, weights, available, strict=True) if w and not t]:
        raise BadRecipe(f"{variant.mixture}: part {empty[0]} has no documents")
    budget = mixture.budget
    target = None if budget is None else budget.tokens or (budget.epochs or 0) * sum(available)
    shares = tuple(weight / sum(weights) for weight in weights)
    return OpenedVariant(
        variant.name, corpora, mixture.parts, tuple(available), shares, target=target or sum(weights)
    )


def with_epochs(variant: OpenedVariant, experiment: Experiment) -> OpenedVariant:
    """Return a variant whose parts are repeated as often as in the large run, but at least once."""
    target = experiment.target_tokens or variant.target
    epochs = [
        max(1.0, target * share / available) if target and available else 1.0
        for share, available in zip(variant.shares, variant.available, strict=True)
    ]
    return replace(variant, epochs=tuple(epochs), target=target)


def expect_enough(experiment: Experiment, variant: OpenedVariant, number: int) -> None:
    """Raise BadRecipe if a part has fewer tokens than a run reads of it."""
    for need, part, tokens, epochs in zip(
        variant.needs(experiment.tokens), variant.parts, variant.available, variant.epochs, strict=True
    ):
        if need > tokens:
            raise experiment.fault(
                f"tokens: variant {variant.name}: part {part.name} needs {need:,.0f} tokens, but has {tokens:,}; "
                "lower `tokens`, or give `target_tokens`",
                "tokens",
            )
        if epochs > MOST_EPOCHS:
            raise experiment.fault(
                f"variant {variant.name}: part {part.name} would be repeated {epochs:,.0f} times",
                "variants",
                number,
            )


def draws_of(
    variants: Sequence[OpenedVariant], tokens: float, samples: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the numbers of variants with the same corpora and parts, and the tokens to draw of each part.

    samples: the number of different samples that the runs of each variant read.
    """
    groups = dict[tuple[object, ...], list[int]]()
    for number, variant in enumerate(variants):
        parts = tuple((part.sources, part.corpora, part.where) for part in variant.parts)
        groups.setdefault((variant.corpora, parts), []).append(number)
    for numbers in groups.values():
        needs = zip(*(variants[number].needs(tokens * samples[number]) for number in numbers), strict=True)
        yield numbers, [int(max(part) * SPARE) + SPARE_TOKENS if max(part) else 0 for part in needs]
