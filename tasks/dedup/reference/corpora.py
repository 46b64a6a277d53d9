"""Corpora that others have published, or we have: found by a URL, with nothing but what is published."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED, Published
from zyda_flows.tasks.accounts.published_files import PublishedFiles
from zyda_flows.tasks.errors import BadRecipe, Damaged, Denied, NoCorpus, ZydaError, first_line
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.faults import place_in_recipe
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import TAG_BY_FIELD
from zyda_flows.tasks.signatures.keys import index_parameters
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of

LETTERS = 8  # of its digest that tell a corpus from another of its name
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
ANEW = "{url}: this corpus was published anew while the build was running; start the build again"


class ReferenceCorpus(Record):
    """A published corpus as it was when the build began.

    url: of the published folder. label: what `removed/` calls it. digest: the SHA-256 of its manifest.
    """

    url: str
    label: str
    digest: str

    @property
    def folder(self) -> Folder:
        return Folder(self.url)

    @property
    def manifest(self) -> Published:
        return manifest_of(self.url, self.digest)


@lru_cache(maxsize=16)
def manifest_of(url: str, digest: str) -> Published:
    """Read a manifest. Raises Denied where it is not the one that a build began with."""
    content = Folder(url).read(MANIFEST)
    if hashlib.sha256(content).hexdigest() != digest:
        raise Denied(ANEW.format(url=url))
    return Published.model_validate_json(content)


def corpus_at(url: str) -> ReferenceCorpus:
    """Find what is published at a URL: of the folder of a corpus, or of its published folder.

    Raises Denied where there is nothing, or what is there cannot be read.
    """
    try:
        return open_corpus(url)
    except ZydaError:
        raise
    except (ValueError, TypeError, ImportError) as error:  # fsspec raises them for odd URLs
        raise Denied(f"{url!r} cannot be read: {first_line(error)}") from error


def open_corpus(url: str) -> ReferenceCorpus:
    """Do so. Raises what fsspec raises for odd URLs besides."""
    for folder in (Folder(url).folder(PUBLISHED), Folder(url)):
        content = folder.read_if_there(MANIFEST)
        if content is not None:
            try:
                manifest = Published.model_validate_json(content)
            except ValidationError as error:
                raise Denied(f"{folder.url}/{MANIFEST} is cut or changed, or of another version") from error
            if not NAME.fullmatch(manifest.corpus):
                raise Denied(f"{folder.url}/{MANIFEST}: {manifest.corpus!r:.200} is no name of a corpus")
            digest = hashlib.sha256(content).hexdigest()
            return ReferenceCorpus(url=folder.url, label=manifest.corpus, digest=digest)
    raise NoCorpus(f"{url}: no corpus is published there: there is no {PUBLISHED}/{MANIFEST}")


def corpora_of(recipe: Recipe) -> dict[str, ReferenceCorpus]:
    """Find the corpora that a round is against, by their URLs in the recipe. Raises BadRecipe with every fault."""
    references, faults = dict[str, ReferenceCorpus](), list[str]()
    for number, dedup in enumerate(recipe.rounds):
        for place, url in enumerate(dedup.against):
            try:
                references[url] = references.get(url) or corpus_at(url)
                check(recipe, dedup, place, references)
            except ZydaError as error:
                faults.append(f"{place_in_recipe(recipe, 'dedup', number, 'against', place)}: {error}")
    if faults:
        raise BadRecipe(*faults)
    names = [label for label, _ in {(other.label, other.digest) for other in references.values()}]
    return {
        url: other
        if names.count(other.label) == 1
        else other.model_copy(update={"label": f"{other.label}@{other.digest[:LETTERS]}"})
        for url, other in references.items()
    }


def check(recipe: Recipe, dedup: Dedup, place: int, references: dict[str, ReferenceCorpus]) -> None:
    """Check that a round can be against the corpus at a place of its list. Raises Denied or Damaged."""
    url = dedup.against[place]
    other = references[url]
    if other.digest in [
        references[before].digest for before in dedup.against[:place] if before in references
    ]:
        raise Denied(f"{url}: this corpus is there twice; leave one out")
    # Whatever its URL: a link to it, or another way to write it.
    own = recipe.folder.read_if_there(f"{PUBLISHED}/{MANIFEST}")
    if own is not None and hashlib.sha256(own).hexdigest() == other.digest:
        raise Denied(f"{url}: a corpus cannot be against itself")
    keys = index_of(other, dedup)
    check_listed(other, keys)
    if dedup.compares_texts:
        check_listed(other, texts_of(other), ", and verify reads it")


def check_listed(other: ReferenceCorpus, files: Iterable[Artifact], reader: str = "") -> None:
    """Check that files of a corpus are there with their sizes. Raises Denied.

    A store that lists nothing, as web servers do, is not asked: what is missing is said when it is read.
    """
    listed = other.folder.listed("")
    if MANIFEST not in listed:
        return
    for artifact in files:
        if artifact.path not in listed:
            raise Denied(f"{other.url}: {artifact.path} is not there{reader}")
        size = listed[artifact.path].get("size")
        if size is not None and size != artifact.size:
            raise Denied(f"{other.url}: {artifact.path} has {size:,} bytes, expected {artifact.size:,}")


def index_of(other: ReferenceCorpus, dedup: Dedup) -> list[Artifact]:
    """Return the files of band keys that were made as those of a round are. Raises Denied where there are none."""
    manifest, params = other.manifest, index_parameters(dedup)
    differences = list[str]()
    for place, keys in manifest.bands.items():
        if keys.parameters == params:
            files = readable(other, f"{place}/")
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


def texts_of(other: ReferenceCorpus) -> list[Artifact]:
    """Return the files of a corpus's documents, by their paths."""
    sources = [origin.source for origin in other.manifest.made_of]
    return [artifact for source in sources for artifact in readable(other, f"{source}/")]


def readable(other: ReferenceCorpus, place: str) -> list[Artifact]:
    """Return the files of a folder as artifacts. Raises Denied where the corpus's table of files is damaged."""
    try:
        return [file.to_read() for file in PublishedFiles(other.folder, other.manifest, "").below(place)]
    except Damaged as error:
        raise Denied(f"{other.url}: {error}") from error


def kind_in_words(parameters: dict[str, Any]) -> str:
    """Say by the parameters of keys of which kind their round is."""
    own = [f"{name}: {parameters[name]}" for name in TAG_BY_FIELD if parameters.get(name) is not None]
    return own[0] if own else "near-duplicates"


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Say in which parameters two sets of keys differ."""
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
    """Return a hash of what some files hold."""
    return digest_of([[artifact.path, artifact.digest] for artifact in artifacts])


@contextmanager
def belongs_to(other: ReferenceCorpus) -> Iterator[None]:
    """Read files of another corpus: what is damaged there is not for this build to mend. Raises Denied."""
    try:
        yield
    except Damaged as error:
        content = other.folder.read_if_there(MANIFEST)
        if content is None or hashlib.sha256(content).hexdigest() != other.digest:
            raise Denied(ANEW.format(url=other.url)) from error
        raise Denied(f"{error}; zyda verify --repair, of that corpus's own recipe, mends it") from error
