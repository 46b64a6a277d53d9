"""The fields of a recipe, and what is refused of it by itself; `source` and `dedup` have those of its parts."""

import re
from glob import escape
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    field_validator,
    model_validator,
)

from zyda_flows.tasks.ids import MAX_SOURCES
from zyda_flows.tasks.recipe.evaluation import EvaluationSet
from zyda_flows.tasks.recipe.kinds import AnyRound, MinHashRound
from zyda_flows.tasks.recipe.source import STEPS, MaxLoss, MaxLosses, Name, OnBadRows, Source
from zyda_flows.tasks.recipe.steps.registry import KINDS, AnyStep
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.recipe.values import (
    Duration,
    Number,
    OneOrMore,
    SpecialAs,
    Strict,
    Url,
    Yes,
    one_or_more,
    without_credentials,
)
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.workers.engine import Engine

MOST_ROUNDS = 9
DENIED = "denied"  # the folder of a corpus with the deny lists that `zyda forget` has written
NAMES_OF_SAMPLES = re.compile(r"-sample-[0-9.e-]+$")


def refuse_reserved(what: str) -> BeforeValidator:
    """Refuse a field whose name is kept for something that is not built yet."""

    def refuse(value: object) -> None:
        if value is not None:
            raise ValueError(f"{what}: not built yet; leave it out")

    return BeforeValidator(refuse)


def as_rounds(value: object) -> object:
    """Make one round of deduplication a list of one, and refuse rounds that contradict themselves."""
    if not isinstance(value, list | tuple):
        value = [value]
    elif [] in value or {} in value or not value:
        raise ValueError(
            "a round that names nothing; give each of a list `exact`, or how its shingles are cut"
        )
    return value


JUDGES = Annotated[None, refuse_reserved("judges of documents")]


class Recipe(Strict):
    """A corpus: where it goes, how it is made, and of what, best source first."""

    name: Name = Field(description="The corpus lies in `<storage>/<name>`.")
    storage: Url = Field(min_length=1, description="Any fsspec URL of a folder.")
    inputs: Url | None = Field(
        None,
        exclude=True,  # as the storage, it is no part of what is built
        min_length=1,
        description="A folder to which `zyda fetch` has copied the sources: they are read there, and not where "
        "they come from. The corpus is the same.",
    )
    tokenizer: Annotated[str, AfterValidator(without_credentials)] = Field(
        min_length=1, description="A hub name or a tokenizer.json."
    )
    special_tokens: SpecialAs = Field(
        "text",
        description="How special tokens that are written in a text, `<|endoftext|>` say, are counted: as the "
        "`text` that they are, or as the `control` tokens that they name.",
    )
    documents: Annotated[tuple[AnyStep, ...], STEPS] = Field(
        (),
        description="Steps on each document while its text is in memory: "
        f"{', '.join(KINDS[:-1])} and {KINDS[-1]}.",
    )
    keep_text: Yes = Field(
        False,
        description="Keep the text and all statistics of documents that a filter removes, so that other values "
        "cost no reading of text. Else they are in `removed/` alone, without their text.",
    )
    rounds: Annotated[
        tuple[AnyRound, ...],
        BeforeValidator(
            as_rounds, json_schema_input_type=AnyRound | Annotated[list[AnyRound], Field(min_length=1)]
        ),
        PlainSerializer(lambda rounds: rounds[0] if len(rounds) == 1 else list(rounds)),
    ] = Field(
        (MinHashRound(),),
        alias="dedup",
        max_length=MOST_ROUNDS,
        description="One deduplication, or a list: rounds, each on what the one before left.",
    )
    max_loss: MaxLoss | None = Field(
        None,
        description="The share of a source's tokens that rules, deduplication and filters may each remove, of "
        "what the one before left; or a share for each of them. A build that would remove more "
        "stops before it publishes.",
    )
    deny: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = Field(
        (),
        description="Deny lists: files of addresses, domains, ids and hashes of documents that somebody asked to "
        "have removed, any fsspec URL or pattern.",
    )
    judges: JUDGES = Field(
        None,
        exclude=True,
        description="Not available yet; leave it out. It will name models that judge what deduplication left.",
    )
    on_bad_rows: OnBadRows = Field(
        "fail",
        description="`fail` ends the build at the first row that is no document; `set_aside` publishes such "
        "rows in `set_aside/` with the reason.",
    )
    publish_set_aside: Yes = Field(
        False,
        description="Also publish the content of rows that are set aside, and their columns that could be read. "
        "Deny lists are applied to these; no rule and no cleaning is.",
    )
    shard_mib: Annotated[float, Number] = Field(256, gt=0, le=1024, description="Text in one shard, MiB.")
    sample: Annotated[float, Number] = Field(
        1.0, gt=0, le=1, description="The part of the input that is used."
    )
    publish_bands: Yes = Field(
        True,
        description="Also publish the LSH band keys, so that other corpora can be deduplicated against this one"
        " without its text, and `zyda find` can look texts up: 128 bytes a document with 8 bands.",
    )
    reread_after: Duration = Field(
        "30d",
        exclude=True,  # it does not change what is published
        description="How long published files may go unread before a build compares them with their SHA-256 "
        "again: 90m, 12h, 30d, 8w.",
    )
    work_copies: Yes = Field(
        False,
        exclude=True,
        description="On an object store, keep what was published in the work folder, too: it takes its room twice, "
        "and a recipe that is changed back is published without writing its text again.",
    )
    license: str | None = Field(None, min_length=1, description="Of the corpus, as the hub names it.")
    languages: tuple[str, ...] = Field((), description="Of the corpus, as the hub names them: en, de.")
    sources: tuple[Source, ...] = Field(
        min_length=1, max_length=MAX_SOURCES, description="The datasets, best rank first; at most 1,024."
    )
    _as_written: dict[str, Any] = PrivateAttr(default_factory=dict)
    _engine: Engine = PrivateAttr(Engine.AUTO)
    _lists_of_corpus: tuple[str, ...] | None = PrivateAttr(None)
    _file: tuple[str, str] = PrivateAttr(("", ""))  # its path, and what it says

    @field_validator("documents", mode="before")
    @classmethod
    def are_a_list(cls, steps: Any) -> Any:
        if steps is None:
            raise ValueError("a list of steps is expected; [] for none")
        return steps

    @field_validator("sources")
    @classmethod
    def names_differ(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        names = [source.name.lower() for source in sources]  # some file systems do not tell a from A
        for source in sources:
            if names.count(source.name.lower()) > 1:
                raise ValueError(f"two sources are called {source.name}; give each a name of its own")
        return sources

    @model_validator(mode="after")
    def sources_carry_what_rounds_compare(self) -> "Recipe":
        for column in {one.key_column for one in self.rounds} - {"text"}:
            for source in self.sources:
                name = column.partition(".")[0]
                chosen = source.columns is not None and not {name, column} & {*source.columns}
                if not source.exempt and (chosen or {name, column} & {*source.without}):
                    raise ValueError(
                        f"dedup: source {source.name} does not carry the column {column} of a round"
                    )
        return self

    @model_validator(mode="after")
    def components_by_language_are_found(self) -> "Recipe":
        for source in self.sources:
            has_step = any(step.finds_language for step in self.steps_of(source.name))
            if source.component and source.component.language and not has_step:
                raise ValueError(
                    f"component: nothing finds the language of source {source.name}; give it a step language_id"
                )
        return self

    @model_validator(mode="after")
    def names_of_sets_mean_one(self) -> "Recipe":
        known = dict[str, EvaluationSet]()
        for source in self.sources:
            for step in self.steps_of(source.name):
                for name, one in step.evaluation_sets.items():
                    if known.setdefault(name, one) != one:
                        raise ValueError(f"the set {name} is another one for source {source.name}; rename it")
        return self

    @field_validator("name")
    @classmethod
    def not_of_a_sample(cls, name: str) -> str:
        if NAMES_OF_SAMPLES.search(name):
            raise ValueError("a sample of another corpus could have this name; choose another")
        return name

    @property
    def as_written(self) -> dict[str, Any]:
        """The recipe with its defaults, but with the paths that stand in its file; not where it is stored."""
        return self._as_written or self.model_dump(mode="json", exclude={"storage"}, by_alias=True)

    @property
    def engine(self) -> Engine:
        """On what it is computed, which the environment says, for a corpus does not depend on it."""
        return self._engine

    def name_of(self, name: str) -> str:
        """Return what a stage is called that is about no round (see `tasks.recipe.rounds`): by its name."""
        return name

    @property
    def corpus(self) -> str:
        """The name of the folder of this corpus: a sample never touches the whole corpus."""
        return self.name if self.sample == 1 else f"{self.name}-sample-{self.sample}"

    @property
    def folder(self) -> Folder:
        """The folder of this corpus, with all that is made of it: `<storage>/<name>`."""
        return Folder(self.storage).folder(self.corpus)

    @property
    def deny_lists(self) -> tuple[str, ...]:
        """The deny lists that a build obeys: the recipe's own, then those that lie beside the corpus."""
        return (*self.deny, *self.lists_of_corpus)

    @property
    def lists_of_corpus(self) -> tuple[str, ...]:
        """The deny lists beside the corpus. They are looked for once, so that all of a build obeys the same."""
        if self._lists_of_corpus is None:
            url = escape(self.folder.url)
            paths = [path for path in self.folder.files(DENIED) if "/." not in path]  # as Macs leave them
            self._lists_of_corpus = tuple(f"{url}/{escape(path)}" for path in paths)
        return self._lists_of_corpus

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)

    @property
    def is_against_others(self) -> bool:
        """Whether any round names other corpora."""
        return any(dedup.against for dedup in self.rounds)

    def may_go(self, source: str) -> bool:
        """Say whether documents of a source may go as duplicates."""
        return not (self.source(source).exempt or self.source(source).protect)

    def steps_of(self, source: str) -> tuple[Step, ...]:
        """Return the steps on a source's documents: its own, or the recipe's."""
        own = self.source(source).documents
        return self.documents if own is None else own

    @property
    def has_steps(self) -> bool:
        """Whether any source's documents are cleaned, filtered or measured while their text is in memory."""
        return any(self.steps_of(source.name) for source in self.sources)

    def max_loss_of(self, source: str, by: str) -> float | None:
        """Return the share of a source's tokens that may go by `rules`, `dedup`, `filter` or another stage."""
        own = self.source(source).max_loss
        most = self.max_loss if own is None else own
        return getattr(most, by, None) if isinstance(most, MaxLosses) else most

    @property
    def has_max_loss(self) -> bool:
        return self.max_loss is not None or any(source.max_loss is not None for source in self.sources)

    def on_bad_rows_of(self, source: Source) -> OnBadRows:
        return source.on_bad_rows or self.on_bad_rows
