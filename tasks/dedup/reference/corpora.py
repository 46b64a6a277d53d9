"""Open the reference corpora of a round, and list the files of each that the round reads."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRecipe, Denied, ZydaError
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.faults import place_in_recipe
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import TAG_BY_FIELD
from zyda_flows.tasks.signatures.keys import index_parameters
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.records import digest_of

LETTERS = 8  # of a corpus's digest, to distinguish corpora with the same name


def corpora_of(recipe: Recipe) -> dict[str, PublishedCorpus]:
    """Return the reference corpora of all rounds, by their URLs in the recipe. Raises BadRecipe with all faults."""
    references, faults = dict[str, PublishedCorpus](), list[str]()
    for number, dedup in enumerate(recipe.rounds):
        for place, url in enumerate(dedup.against):
            try:
                references[url] = references.get(url) or PublishedCorpus.at(url)
                check(recipe, dedup, place, references)
            except ZydaError as error:
                faults.append(f"{place_in_recipe(recipe, 'dedup', number, 'against', place)}: {error}")
    if faults:
        raise BadRecipe(*faults)
    names = [label for label, _ in {(other.label, other.digest) for other in references.values()}]
    return {
        url: other
        if names.count(other.label) == 1
        else replace(other, label=f"{other.label}@{other.digest[:LETTERS]}")
        for url, other in references.items()
    }


def check(recipe: Recipe, dedup: Dedup, place: int, references: dict[str, PublishedCorpus]) -> None:
    """Check that a round can use the corpus at a place of its list. Raises Denied or Damaged."""
    url = dedup.against[place]
    other = references[url]
    if other.digest in [
        references[before].digest for before in dedup.against[:place] if before in references
    ]:
        raise Denied(f"{url}: this corpus is there twice; leave one out")
    # By digest, because the same corpus can have several URLs.
    own = recipe.folder.read_if_there(f"{PUBLISHED}/{MANIFEST}")
    if own is not None and hashlib.sha256(own).hexdigest() == other.digest:
        raise Denied(f"{url}: a corpus cannot be against itself")
    if dedup.has_keys:
        other.expect_listed(index_of(other, dedup))
    if dedup.compares_texts:
        reader = "verify" if dedup.has_keys else "a semantic round"
        other.expect_listed(texts_of(other), f", and {reader} reads it")


def index_of(other: PublishedCorpus, dedup: Dedup) -> list[Artifact]:
    """Return the files of band keys with the parameters of a round. Raises Denied if the corpus has none."""
    manifest, params = other.manifest, index_parameters(dedup)
    differences = list[str]()
    for place, keys in manifest.bands.items():
        if keys.parameters == params:
            files = other.artifacts(f"{place}/")
            if sum(file.rows for file in files) != keys.documents * dedup.key_bands:
                raise Denied(f"{other.url}/{MANIFEST} does not list all of its band keys")
            return files
        differences.append(difference(keys.parameters, params))
    if not differences:
        raise Denied(f"{other.url}: it publishes no band keys: its recipe says so (publish_bands: false)")
    raise Denied(
        f"{other.url}: its band keys were made with other parameters ({'; or '.join(differences)}); give this "
        "round the same"
    )


def texts_of(other: PublishedCorpus) -> list[Artifact]:
    """Return the files of a corpus's documents, by their paths."""
    sources = [origin.source for origin in other.manifest.made_of]
    return [artifact for source in sources for artifact in other.artifacts(f"{source}/")]


def kind_in_words(parameters: dict[str, Any]) -> str:
    """Return a phrase for the kind of a round, from the parameters of its keys."""
    own = [f"{name}: {parameters[name]}" for name in TAG_BY_FIELD if parameters.get(name) is not None]
    return own[0] if own else "near-duplicates"


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return a phrase that lists the parameters in which two sets of keys differ."""
    kinds = kind_in_words(theirs), kind_in_words(ours)
    if kinds[0] != kinds[1]:
        return f"for {kinds[0]} there and for {kinds[1]} here"
    names = [name for name in {**ours, **theirs} if theirs.get(name) != ours.get(name)]
    return ", ".join(
        f"{name} {as_text(theirs.get(name))} there and {as_text(ours.get(name))} here" for name in names
    )


def as_text(value: Any) -> str:
    return "none" if value is None else str(value)


def content_of(artifacts: Sequence[Artifact]) -> str:
    """Return a hash of the paths and the content of files."""
    return digest_of([[artifact.path, artifact.digest] for artifact in artifacts])
