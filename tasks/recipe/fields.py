"""The fields of a recipe, and the checks across them. `source`, `dedup` and `steps` have those of its parts."""

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
from zyda_flows.tasks.recipe.buckets import Bucket
from zyda_flows.tasks.recipe.evaluation import EvaluationSet
from zyda_flows.tasks.recipe.judges import MOST_JUDGES, Judge, Judges, merged_judges
from zyda_flows.tasks.recipe.kinds import AnyRound, MinHashRound
from zyda_flows.tasks.recipe.passages import AnyPart, check_kinds_differ
from zyda_flows.tasks.recipe.source import STEPS, MaxLoss, MaxLosses, Name, OnBadRows, Source
from zyda_flows.tasks.recipe.steps.registry import KINDS, AnyStep
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.recipe.values import (
    Duration,
    Flag,
    Names,
    Number,
    OneOrMore,
    SpecialAs,
    Strict,
    Url,
    one_or_more,
    without_credentials,
)
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.workers.engine import Engine

MOST_ROUNDS = 9
DENIED = "denied"  # the folder of a corpus with the deny lists that `zyda forget` has written
NAMES_OF_SAMPLES = re.compile(r"-sample-[0-9.e-]+$")


def as_rounds(value: object) -> object:
    """Return a list for a single deduplication round. Raises ValueError for an empty round in a list."""
    if not isinstance(value, list | tuple):
        value = [value]
    elif [] in value or {} in value or not value:
        raise ValueError("an empty round; give each round of a list at least `exact` or `shingle`")
    return value


class Recipe(Strict):
    """A corpus: its name and storage, its sources in order of rank, and the settings of its build."""

    name: Name = Field(description="The corpus is published in `<storage>/<name>`.")
    storage: Url = Field(min_length=1, description="The URL of a folder, any fsspec URL.")
    inputs: Url | None = Field(
        None,
        exclude=True,  # like the storage, it does not change the corpus
        min_length=1,
        description="A folder to which `zyda fetch` has copied the sources. They are read from there instead of "
        "their URLs. The published corpus is the same.",
    )
    tokenizer: Annotated[str, AfterValidator(without_credentials)] = Field(
        min_length=1, description="A hub name or the path of a tokenizer.json."
    )
    special_tokens: SpecialAs = Field(
        "text",
        description="How special tokens that are written in a text, for example `<|endoftext|>`, are counted: as "
        "`text`, or as the `control` tokens with these names.",
    )
    documents: Annotated[tuple[AnyStep, ...], STEPS] = Field(
        (),
        description="The steps on each document, in order, while its text is in memory: "
        f"{', '.join(KINDS[:-1])} and {KINDS[-1]}.",
    )
    keep_text: Flag = Field(
        False,
        description="Keep the text and all statistics of documents that a filter removes, so that a build "
        "with other limits need not read the sources again. Otherwise `removed/` lacks their text.",
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
        description="One deduplication round, or a list of rounds; each runs on the documents that the "
        "round before it kept.",
    )
    passages: Annotated[tuple[AnyPart, ...], AfterValidator(check_kinds_differ)] = Field(
        (),
        description="Passages that several documents share, which are cut after all documents are chosen: at most "
        "a part each with `length`, `lines` and `paragraphs`.",
    )
    max_loss: MaxLoss | None = Field(
        None,
        description="The largest share of a source's tokens that rules, deduplication, filters and passages may "
        "each remove, of the tokens before that stage; or a share for each of them. If a stage would remove more, "
        "the build stops before it publishes.",
    )
    deny: Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)] = Field(
        (),
        description="Deny lists: files of addresses, domains, ids and hashes of documents to remove on request, "
        "any fsspec URL or pattern.",
    )
    judges: Judges = Field(
        (),
        description="The models that judge the documents of each source, in order, cheap models first. The judge "
        "of a source's `classify` runs after them.",
    )
    bucket: Bucket | None = Field(
        None,
        description="Buckets of the documents by the percentiles of scores, after all filters; a column of all "
        "sources.",
    )
    agreement: Names = Field(
        (),
        max_length=16,
        description="Columns of numbers, of sources and joins, of which the agreement within clusters of "
        "near-duplicates is measured, as of the scores of judges with `at: ingest`.",
    )
    on_bad_rows: OnBadRows = Field(
        "fail",
        description="`fail` stops the build at the first row that is not a valid document; `set_aside` publishes "
        "such rows in `set_aside/` with the reason.",
    )
    publish_set_aside: Flag = Field(
        False,
        description="Also publish the content of rows that are set aside, and their readable columns. Deny lists "
        "are applied to them; rules and cleaning are not.",
    )
    shard_mib: Annotated[float, Number] = Field(256, gt=0, le=1024, description="Text in one shard, MiB.")
    published_mib: Annotated[float | None, Number] = Field(
        None,
        gt=0,
        le=32_768,
        description="Text in one published file, MiB. Consecutive shards share a file up to this size. Without "
        "it, a file has a 256th to a 128th of the text of its source, at least 256 MiB and at most 4 GiB.",
    )
    sample: Annotated[float, Number] = Field(1.0, gt=0, le=1, description="The share of the input to use.")
    publish_bands: Flag = Field(
        True,
        description="Also publish the LSH band keys, so that other corpora can be deduplicated against this corpus"
        " without its text, and `zyda find` can search for texts. They need 128 bytes a document with 8 bands.",
    )
    publish_vectors: Names = Field(
        (),
        max_length=MOST_JUDGES,
        description="The judges whose vectors of kept documents are published in `vectors/`, in 8 bits: "
        "models of token ids, and encoders of sentences with head.json. A document takes a byte for each "
        "dimension, and 12 bytes.",
    )
    reread_after: Duration = Field(
        "30d",
        exclude=True,  # it does not change the published corpus
        description="The age after which a build compares published files with their SHA-256 again: 90m, 12h, "
        "30d, 8w.",
    )
    work_copies: Flag = Field(
        False,
        exclude=True,
        description="On an object store, keep copies of published files in the work folder. They double the "
        "storage; a recipe that is changed back is then published without writing its text again.",
    )
    license: str | None = Field(
        None, min_length=1, description="The licence of the corpus, by its name on the hub."
    )
    languages: tuple[str, ...] = Field(
        (), description="The languages of the corpus, by their names on the hub: en, de."
    )
    sources: tuple[Source, ...] = Field(
        min_length=1,
        max_length=MAX_SOURCES,
        description="The sources, in order of rank, the best first; at most 1,024.",
    )
    _as_written: dict[str, Any] = PrivateAttr(default_factory=dict)
    _engine: Engine = PrivateAttr(Engine.AUTO)
    _lists_of_corpus: tuple[str, ...] | None = PrivateAttr(None)
    _file: tuple[str, str] = PrivateAttr(("", ""))  # its path and its text

    @field_validator("documents", mode="before")
    @classmethod
    def check_is_list(cls, steps: Any) -> Any:
        if steps is None:
            raise ValueError("a list of steps is expected; [] for none")
        return steps

    @field_validator("sources")
    @classmethod
    def names_differ(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        names = [source.name.lower() for source in sources]  # some file systems do not tell a from A
        for source in sources:
            if names.count(source.name.lower()) > 1:
                raise ValueError(f"two sources have the name {source.name}; rename one of them")
        return sources

    @model_validator(mode="after")
    def check_key_columns(self) -> "Recipe":
        for column in {dedup.key_column for dedup in self.rounds} - {"text"}:
            for source in self.sources:
                name = column.partition(".")[0]
                chosen = source.columns is not None and not {name, column} & {*source.columns}
                if not source.exempt and (chosen or {name, column} & {*source.without}):
                    raise ValueError(
                        f"dedup: a round compares the column {column}, which source {source.name} does not carry; "
                        "add it to `columns`"
                    )
        return self

    @model_validator(mode="after")
    def check_language_components(self) -> "Recipe":
        for source in self.sources:
            has_step = any(step.finds_language for step in self.steps_of(source.name))
            if source.component and source.component.language and not has_step:
                raise ValueError(
                    f"component: source {source.name} needs a step language_id to identify the language"
                )
        return self

    @model_validator(mode="after")
    def check_evaluation_sets(self) -> "Recipe":
        known = dict[str, EvaluationSet]()
        for source in self.sources:
            for step in self.steps_of(source.name):
                for name, items in step.evaluation_sets.items():
                    if known.setdefault(name, items) != items:
                        raise ValueError(
                            f"the evaluation set {name} of source {source.name} differs from another "
                            "source's set of this name; rename it"
                        )
        return self

    @model_validator(mode="after")
    def check_judges(self) -> "Recipe":
        merged_judges(self.judges_of(source.name) for source in self.sources)
        names = [judge.name for judge in self.all_judges]
        if unknown := [name for name in self.publish_vectors if name not in names]:
            known = ", ".join(names) or "none"
            raise ValueError(f"publish_vectors: no judge has the name {unknown[0]}; the judges are {known}")
        return self

    @model_validator(mode="after")
    def check_bucket(self) -> "Recipe":
        if self.bucket is None:
            return self
        if any(judge.name in ("bucket", self.bucket.name) for judge in self.all_judges):
            raise ValueError("bucket: a judge has the name of the buckets; rename the judge")
        folders = [source.name for source in self.sources if source.component and source.component.folders]
        if self.bucket.folders and folders:
            raise ValueError(
                f"bucket: source {folders[0]} has folders for its components; remove one of them"
            )
        return self

    @field_validator("name")
    @classmethod
    def check_sample_name(cls, name: str) -> str:
        if NAMES_OF_SAMPLES.search(name):
            raise ValueError("this name has the form of a sample of another corpus; use another name")
        return name

    @property
    def as_written(self) -> dict[str, Any]:
        """The recipe with its defaults and the paths as in its file, without the storage."""
        return self._as_written or self.model_dump(mode="json", exclude={"storage"}, by_alias=True)

    @property
    def engine(self) -> Engine:
        """The engine of the computation, from the environment: the corpus does not depend on it."""
        return self._engine

    def name_of(self, name: str) -> str:
        """Return the name of a stage of the whole corpus: its own name (compare `Round.name_of`)."""
        return name

    @property
    def corpus(self) -> str:
        """The name of this corpus' folder. A sample has its own folder."""
        return self.name if self.sample == 1 else f"{self.name}-sample-{self.sample}"

    @property
    def folder(self) -> Folder:
        """The folder of this corpus and its work files: `<storage>/<name>`."""
        return Folder(self.storage).folder(self.corpus)

    @property
    def deny_lists(self) -> tuple[str, ...]:
        """The deny lists of a build: the lists of the recipe, then the lists in the corpus' folder."""
        return (*self.deny, *self.lists_of_corpus)

    @property
    def lists_of_corpus(self) -> tuple[str, ...]:
        """The deny lists in the corpus' folder. They are listed once, so that all stages use the same lists."""
        if self._lists_of_corpus is None:
            url = escape(self.folder.url)
            paths = [
                path for path in self.folder.files(DENIED) if "/." not in path
            ]  # not the hidden files of macOS
            self._lists_of_corpus = tuple(f"{url}/{escape(path)}" for path in paths)
        return self._lists_of_corpus

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)

    @property
    def is_against_others(self) -> bool:
        """Whether a round compares with other corpora."""
        return any(dedup.against for dedup in self.rounds)

    def is_removable(self, source: str) -> bool:
        """Return whether documents of a source may be removed as duplicates."""
        return not (self.source(source).exempt or self.source(source).protect)

    def steps_of(self, source: str) -> tuple[Step, ...]:
        """Return the steps on a source's documents: its own, or the recipe's."""
        own = self.source(source).documents
        return self.documents if own is None else own

    def judges_of(self, source: str) -> tuple[Judge, ...]:
        """Return the judges of a source in the order in which they run; the judge of `classify` is the last."""
        own = self.source(source)
        judges = sorted(
            self.judges if own.judges is None else own.judges, key=lambda judge: judge.at != "ingest"
        )
        return (*judges, *([own.classify.judge] if own.classify else []))

    @property
    def all_judges(self) -> list[Judge]:
        """The judges of all sources, each name once, in the order in which they run."""
        return merged_judges(self.judges_of(source.name) for source in self.sources)

    @property
    def has_steps(self) -> bool:
        """Whether any source's documents are cleaned, filtered or measured while their text is in memory."""
        return any(self.steps_of(source.name) for source in self.sources)

    def max_loss_of(self, source: str, by: str) -> float | None:
        """Return the largest share of a source's tokens that a stage, for example `rules`, may remove."""
        own = self.source(source).max_loss
        most = self.max_loss if own is None else own
        return getattr(most, by, None) if isinstance(most, MaxLosses) else most

    @property
    def has_max_loss(self) -> bool:
        return self.max_loss is not None or any(source.max_loss is not None for source in self.sources)

    def on_bad_rows_of(self, source: Source) -> OnBadRows:
        return source.on_bad_rows or self.on_bad_rows
