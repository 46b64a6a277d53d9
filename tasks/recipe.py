"""The recipe: the YAML file that describes a corpus, judged completely before work starts."""

import glob
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

import yaml
from fsspec.registry import known_implementations, registry
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from tasks.errors import BadRecipe
from tasks.ids import MAX_SOURCES
from tasks.storage import absolute

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
OnBadRows = Literal["fail", "set_aside"]
OF_OTHERS = {"async_wrapper", "data", "dir", "generic", "jlab", "jupyter", "reference"}  # they wrap others
SECRETIVE = "a recipe holds no credentials"
RESERVED_NAMES = {
    "removed", "clusters", "set_aside",
    "readme.md", "manifest.json", "ledger.json", "ledger.parquet", "sources.parquet",
}  # fmt: skip
SECRET_PARAMETERS = {
    "sig", "signature", "token", "access_token", "key", "api_key", "password",
    "x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential",
}  # fmt: skip
NAMES_OF_SAMPLES = re.compile(r"-sample-[0-9.e-]+$")


class Strict(BaseModel):
    """A frozen part of the recipe in which an unknown field is a fault."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def without_credentials(url: str) -> str:
    """Refuse `scheme://user:password@host` and signed URLs; the message does not repeat them."""
    parameters = {name.lower() for name, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)}
    if re.search(r"[a-z0-9+.-]+://[^/]*@", url, re.IGNORECASE) or parameters & SECRET_PARAMETERS:
        raise ValueError(f"{SECRETIVE}: leave them to the environment or to fsspec's configuration")
    return url


def readable(url: str) -> str:
    """Refuse a URL that says nothing, or of a kind that nothing here reads; write its kind in small letters."""
    if not url.strip() or re.fullmatch(r"[a-z0-9+.-]+:/{0,3}", url.strip(), re.IGNORECASE):
        raise ValueError("a path or a URL with a place in it is expected")
    if "\0" in url:
        raise ValueError("a path holds no null character")
    if "://" not in url:
        try:
            Path(url).expanduser()
        except RuntimeError as error:
            raise ValueError("there is no such user") from error
    url = re.sub(r"(?<![^:])[A-Za-z0-9+.-]+(?=://)", lambda scheme: scheme[0].lower(), url)
    for link in url.split("::"):
        scheme = link.partition("://")[0] if "://" in link else ""
        unknown = scheme not in known_implementations and scheme not in registry
        if scheme and (unknown or scheme in OF_OTHERS):
            raise ValueError(f"{scheme}:// is no kind of URL of which files can be read here")
    return url


def number(value: object) -> object:
    """Refuse true and false where a number is expected, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a number is expected")
    return value


def said(text: str) -> str:
    if not text.strip():
        raise ValueError("it says nothing; leave it out")
    return text


Url = Annotated[str, AfterValidator(without_credentials), AfterValidator(readable)]
Number = BeforeValidator(number)


class Dedup(Strict):
    """How near-duplicates are found and which of them go (see the README's chapter on it)."""

    shingle: Literal["characters", "words"] = "characters"
    width: Annotated[int, Number] = Field(
        default_factory=lambda given: 13 if given.get("shingle") == "words" else 25,
        ge=1, le=1000, description="Code points or words in a shingle: 25 or 13 unless given.",
    )  # fmt: skip
    values: Annotated[Literal[32, 64, 128, 256], Number] = Field(128, description="Length of a signature.")
    bands: Annotated[int, Number] = Field(
        8, ge=1, le=256,
        description="Bands of values / bands rows; the similarity where half of the pairs are "
        "found is about (1 / bands) ** (bands / values): 0.88 for 8 bands of 16.",
    )  # fmt: skip
    scope: Literal["across", "global"] = "across"

    @model_validator(mode="after")
    def bands_divide_values(self) -> "Dedup":
        if self.values % self.bands:
            raise ValueError(f"bands must divide values ({self.values}), so that no value is lost")
        return self


class Classify(Strict):
    """Which model judges a source's documents and which of its labels stay."""

    model: str = Field(min_length=1, description="A hub name or a local folder.")
    revision: str | None = Field(None, description="Of a hub name: a branch, tag or commit.")
    keep: tuple[str, ...] = Field(
        (), description="Labels that stay; empty for a regression model, whose score `keep` reads."
    )
    max_tokens: Annotated[int, Number] = Field(1024, ge=8, le=8192, description="Longer texts are cut.")


class Source(Strict):
    """One input dataset."""

    name: Name
    files: Annotated[tuple[Url, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)] = Field(
        min_length=1, description="Globs or files, any fsspec URL."
    )
    text: str = Field("text", min_length=1, description="The column with the text.")
    keep: Annotated[str, AfterValidator(said)] | None = Field(
        None, description="SQL over the columns; true stays."
    )
    classify: Classify | None = None
    on_bad_rows: OnBadRows | None = Field(None, description="Overrides the recipe's.")

    @field_validator("name")
    @classmethod
    def not_reserved(cls, name: str) -> str:
        if name.lower() in RESERVED_NAMES:
            raise ValueError(f"{name} is in every published corpus; choose another name")
        return name


class Recipe(Strict):
    """A corpus: where it goes, how it is made, and of what, best source first."""

    name: Name
    storage: Url = Field(min_length=1, description="Any fsspec URL of a folder.")
    tokenizer: Annotated[str, AfterValidator(without_credentials)] = Field(
        min_length=1, description="A hub name or a tokenizer.json."
    )
    dedup: Dedup = Dedup()
    on_bad_rows: OnBadRows = "fail"
    shard_mib: Annotated[float, Number] = Field(256, gt=0, le=1024, description="Text in one shard, MiB.")
    sample: Annotated[float, Number] = Field(
        1.0, gt=0, le=1, description="The part of the input that is used."
    )
    license: str | None = Field(None, min_length=1, description="Of the corpus, as the hub names it.")
    languages: tuple[str, ...] = Field((), description="Of the corpus, as the hub names them: en, de.")
    sources: tuple[Source, ...] = Field(min_length=1, max_length=MAX_SOURCES)
    _as_written: dict[str, Any] = PrivateAttr(default_factory=dict)

    @field_validator("sources")
    @classmethod
    def names_differ(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        names = [source.name.lower() for source in sources]  # some file systems do not tell a from A
        for source in sources:
            if names.count(source.name.lower()) > 1:
                raise ValueError(f"two sources are called {source.name}; give each a name of its own")
        return sources

    @field_validator("name")
    @classmethod
    def not_of_a_sample(cls, name: str) -> str:
        if NAMES_OF_SAMPLES.search(name):
            raise ValueError("a sample of another corpus could have this name; choose another")
        return name

    @property
    def as_written(self) -> dict[str, Any]:
        """The recipe with its defaults, but with the paths that stand in its file; not where it is stored."""
        return self._as_written or self.model_dump(mode="json", exclude={"storage"})

    @property
    def corpus(self) -> str:
        """The name of the folder of this corpus: a sample never touches the whole corpus."""
        return self.name if self.sample == 1 else f"{self.name}-sample-{self.sample}"

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)

    def on_bad_rows_of(self, source: Source) -> OnBadRows:
        return source.on_bad_rows or self.on_bad_rows


def load_recipe(path: str, *, storage: str | None = None, sample: float | None = None) -> Recipe:
    """Read a recipe; `storage` and `sample` override what it says.

    Relative paths in it are relative to the recipe's own folder. Raises BadRecipe with all faults.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = yaml.load(text, Loader=UniqueKeys)  # noqa: S506 (a SafeLoader)
    except (OSError, ValueError) as error:
        found = str(getattr(error, "strerror", None) or error)
        raise BadRecipe(f"{path}: cannot be read: {found}".replace("\0", "\\0")) from error
    except RecursionError as error:
        raise BadRecipe(f"{path}: not a recipe: it is nested too deep") from error
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        found = str(getattr(error, "problem", None) or error).replace("\n", " ")
        raise BadRecipe(f"{path}{line}: not YAML that a recipe can hold: {found}") from error
    if not isinstance(content, dict):
        raise BadRecipe(f"{path}: a recipe is a mapping with name, storage, tokenizer and sources")
    if sample is not None:
        content["sample"] = sample
    if storage is not None:
        content["storage"] = storage if is_odd(storage) else absolute(storage)
    try:
        recipe = Recipe.model_validate(content)
    except ValidationError as error:
        raise BadRecipe(*faults(path, text, error)) from error
    placed = anchored(recipe, Path(path).resolve().parent)
    placed._as_written = recipe.as_written
    return placed


def anchored(recipe: Recipe, folder: Path) -> Recipe:
    """Make the relative paths of a recipe absolute, seen from the recipe's folder."""

    def place(path: str, *, always: bool, at: Path = folder) -> str:
        if "://" in path or not (always or os.path.exists(folder / path)):
            return path
        return os.path.abspath(at / Path(path).expanduser())  # a link keeps its name, and its ending

    def pattern(path: str) -> str:
        """Anchor a pattern in the folder, whose own name is none."""
        is_pattern = any(mark in path for mark in "*?[") and not os.path.exists(folder / path)
        return place(path, always=True, at=Path(glob.escape(str(folder))) if is_pattern else folder)

    def anchor(source: Source) -> Source:
        files = tuple(map(pattern, source.files))
        if source.classify is None:
            return source.model_copy(update={"files": files})
        model = place(source.classify.model, always=False)
        classify = source.classify.model_copy(update={"model": model})
        return source.model_copy(update={"files": files, "classify": classify})

    return recipe.model_copy(
        update={
            "storage": place(recipe.storage, always=True),
            "tokenizer": place(recipe.tokenizer, always=recipe.tokenizer.endswith(".json")),
            "sources": tuple(anchor(source) for source in recipe.sources),
        }
    )


class UniqueKeys(yaml.SafeLoader):
    """Reads YAML in which no mapping has a key twice, of which the first would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    problem="a name is expected here", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} is here twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def faults(path: str, text: str, error: ValidationError) -> list[str]:
    """Write each fault of a recipe as `file:line: field: what is wrong (what was found)`."""
    tree = yaml.compose(text)
    found = error.errors()
    # A faulty source is no source, so that there may be none left: a consequence, not a fault.
    within = {fault["loc"][:-1] for fault in found if len(fault["loc"]) > 1}
    whole = {place[:i] for place in within for i in range(1, len(place) + 1)}
    own = [
        fault
        for fault in found
        if fault["type"] != "default_factory_not_called"
        and (fault["type"] != "too_short" or fault["loc"] not in whole)
    ]
    return [
        f"{path}{line_of(tree, fault['loc'])}: {field_of(fault['loc'])}: {wording(fault)}" for fault in own
    ]


def is_odd(path: str) -> bool:
    """Say whether a path is one that the recipe will refuse."""
    return not path.strip() or "\0" in path or (path.startswith("~") and path == os.path.expanduser(path))


def field_of(location: tuple[int | str, ...]) -> str:
    joined = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return joined.lstrip(".") or "recipe"


def wording(fault: Any) -> str:
    message = re.sub(r"^Value error, ", "", fault["msg"]).replace("\n", " ")
    if fault["type"] == "missing":
        return "this field is required"
    if fault["type"] == "extra_forbidden":
        return "there is no such field"
    if isinstance(fault["input"], str | int | float | bool) and SECRETIVE not in message:
        return f"{message} (found {fault['input']!r})"
    return message


def line_of(node: Any, location: tuple[int | str, ...]) -> str:
    """Return `:line` of the deepest node on the way to a field, or nothing."""
    for step in location:
        if isinstance(node, yaml.MappingNode):
            below = next((v for k, v in node.value if k.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            below = node.value[step]
        else:
            below = None
        if below is None:
            break
        node = below
    return f":{node.start_mark.line + 1}" if node is not None else ""
