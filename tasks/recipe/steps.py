"""The steps on documents that a recipe can ask for, in the order that it gives them.

    documents:
      - license_filter: {keep: [CC-BY-4.0, MIT]}        # by the column `license`
      - url_rules: {domains: ut1/adult/domains}         # by the column `url`
      - extract: structured                 # of a page its main content as Markdown
      - language_id: {model: lid.176.bin, keep: {en: 0.65}}
      - clean: zyda1                        # or {unicode: true, newlines: true, runs: {"-": 9}}
      - filter: zyda1                       # a set of rules with its published defaults
      - filter: {gopher-quality: {words: [50, 100000], hashes: null}}
      - filter: {mine: {fineweb.short_lines: [null, 0.5]}}
      - measure: [fineweb, code]            # columns of the published documents; nothing goes
      - filter: my_steps:shouting           # a function of one's own
      - decontaminate: {sets: {mmlu: mmlu.parquet}}   # documents with items of evaluation sets go

Each is looked up in `tasks.recipe.rule_sets`; what a step does is in `tasks.documents`.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from zyda_flows.tasks.recipe.cleaning import MAPPING, NAMED_CLEANINGS, OTHER, Cleaning, MappingOrNot
from zyda_flows.tasks.recipe.evaluation import Decontaminate
from zyda_flows.tasks.recipe.license_filter import LicenseFilter
from zyda_flows.tasks.recipe.rule_settings import FUNCTION, RuleSettings, rule_settings
from zyda_flows.tasks.recipe.values import Strict
from zyda_flows.tasks.recipe.web_steps import LanguageId, UrlRules

KINDS = (
    "license_filter",
    "url_rules",
    "extract",
    "language_id",
    "clean",
    "filter",
    "decontaminate",
    "measure",
)
EXTRACTORS = ("fast", "structured", "trafilatura", "wikitext", "latex")
ONCE = {
    "decontaminate": "name all sets in one step",
    "license_filter": "give all that it says in one step",
    "url_rules": "name all files in one step",
    "extract": "a text is extracted once",
    "language_id": "a text has one language",
}
OF_THEIR_OWN = {
    "license_filter",
    "url_rules",
    "language_id",
    "decontaminate",
}  # what they say is neither name nor set
BEFORE_EXTRACTION = {"license_filter", "url_rules", "extract"}  # that read no text


def name_or_mapping(value: object) -> object:
    if not isinstance(value, str | dict | Cleaning | None):
        raise ValueError("a name or a mapping is expected; a step for each where there are several")
    return value


def names_or_mapping(value: object) -> object:
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    if not is_list and not isinstance(value, str | dict | None):
        raise ValueError("a name, a list of names or a mapping is expected")
    return value


def as_steps(value: object) -> object:
    """Refuse what is no list of mappings."""
    if value is not None and not isinstance(value, list | tuple):
        raise ValueError(f"a list of steps is expected, each with one of {', '.join(KINDS)}")
    for step in value or ():
        if not isinstance(step, dict | Step):
            raise ValueError(f"a step is one of {', '.join(KINDS)} with what it says, not {step!r}")
    for once, together in ONCE.items():
        if sum(isinstance(step, dict) and once in step for step in value or ()) > 1:
            raise ValueError(f"{once} stands there twice; {together}")
    names = [next(iter(step), "") if isinstance(step, dict) else step.kind for step in value or ()]
    before = names[: names.index("extract")] if "extract" in names else []
    if early := [name for name in before if name not in BEFORE_EXTRACTION]:
        raise ValueError(f"{early[0]} stands before extract, and reads texts; put it after it")
    return value


class Step(Strict):
    """One step on documents: give one of KINDS."""

    license_filter: LicenseFilter | None = Field(
        None,
        description="Let documents go that have another licence than these, by a column of their source.",
    )
    url_rules: UrlRules | None = Field(
        None, description="Let documents go for their address on the web, before anything reads their text."
    )
    extract: str | None = Field(
        None,
        description="Make the text: of a page its main content (`fast`, `structured`, `trafilatura`), of "
        "`wikitext` or `latex`; or module:function.",
    )
    language_id: LanguageId | None = Field(
        None, description="Find the language of each text, and let others than some go."
    )
    clean: Annotated[
        Annotated[Annotated[str | None, Tag(OTHER)] | Annotated[Cleaning, Tag(MAPPING)], MappingOrNot],
        BeforeValidator(name_or_mapping),
    ] = Field(None, description="Change the text: a name, or what is to be done.")
    filter: Annotated[str | dict[str, Any] | None, BeforeValidator(name_or_mapping)] = Field(
        None, description="Let documents go: a rule set, a mapping of them to values, or module:function."
    )
    decontaminate: Decontaminate | None = Field(
        None, description="Let documents go that hold questions of evaluation sets with their answers."
    )
    measure: Annotated[str | list[str] | dict[str, Any] | None, BeforeValidator(names_or_mapping)] = Field(
        None, description="Publish the statistics of rule sets beside each document."
    )

    @model_serializer(mode="wrap")
    def without_what_says_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what a step does not do, so that what is written can be read again."""
        return {name: value for name, value in dump(self).items() if value is not None}

    @model_validator(mode="after")
    def says_one_thing_that_can_be_done(self) -> "Step":
        if len(self.model_fields_set & {*KINDS}) != 1 or self.does is None:
            raise ValueError(f"give one of {', '.join(KINDS)}")
        if self.extract is not None and self.function is None and self.extract not in EXTRACTORS:
            raise ValueError(f"extract: there is no {self.extract}; there are {', '.join(EXTRACTORS)}")
        if self.function is None and self.kind not in {*OF_THEIR_OWN, "extract"}:
            if self.clean is not None and not self.cleaning.done:
                raise ValueError("clean: it says nothing to be cleaned")
            if self.clean is None and not list(self.sets()):
                raise ValueError(f"{self.kind}: it names no rule set")
        return self

    @property
    def is_cleaning(self) -> bool:
        """Whether it makes other texts of the texts."""
        return self.clean is not None or self.extract is not None

    @property
    def cuts(self) -> bool:
        """Whether it decontaminates by cutting passages out of texts."""
        return self.decontaminate is not None and self.decontaminate.action == "cut"

    @property
    def kind(self) -> str:
        """Which of KINDS it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def does(self) -> Any:
        """What is asked."""
        return next((said for kind in KINDS if (said := getattr(self, kind)) is not None), None)

    @property
    def function(self) -> str | None:
        """The function of one's own that does it, as `module:function`."""
        return self.does if isinstance(self.does, str) and FUNCTION.fullmatch(self.does) else None

    @property
    def name(self) -> str:
        """What it is called where its documents are counted."""
        if self.kind == "extract" and self.function is None:
            return f"extract-{self.does}"
        if isinstance(self.does, str):
            return self.does
        if isinstance(self.does, Cleaning):
            return "+".join(sorted(self.does.done))
        if self.kind in OF_THEIR_OWN:
            return self.kind
        return "+".join(self.does)

    @property
    def cleaning(self) -> Cleaning:
        """What is cleaned. Raises ValueError for a name that means nothing."""
        if isinstance(self.clean, Cleaning):
            return self.clean
        if self.clean not in NAMED_CLEANINGS:
            raise ValueError(f"clean: there is no {self.clean}; there are {', '.join(NAMED_CLEANINGS)}")
        return NAMED_CLEANINGS[self.clean]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a source that it reads or cleans beside the text."""
        if self.license_filter or self.url_rules:
            return tuple(one.column for one in (self.license_filter, self.url_rules) if one)
        pii = self.cleaning.pii if self.clean is not None and self.function is None else None
        return pii.columns if pii else ()

    def sets(self) -> Iterator[RuleSettings]:
        """Return the rule sets that are asked for. Raises ValueError for what there is not."""
        named = [self.does] if isinstance(self.does, str) else self.does
        for name in named:
            values = named[name] if isinstance(named, dict) else None
            yield rule_settings(name, {} if values is None else values, filters=self.filter is not None)


def list_urls(steps: tuple[Step, ...] | None) -> Iterator[str]:
    """Return the files of terms and of evaluation sets that steps name."""
    for step in steps or ():
        if step.decontaminate is not None:
            yield from (url for one in step.decontaminate.sets.values() for url in one.files)
        elif step.url_rules is not None:
            yield from (url for files in step.url_rules.files.values() for url in files)
        elif step.language_id is not None:
            yield from step.language_id.files
        elif step.kind in {"filter", "measure"} and step.function is None:
            for of_set in step.sets():
                yield from (*of_set.lists.values(), *of_set.languages)


def with_list_urls(step: Step, place: Callable[[str], str]) -> Step:
    """Return a step whose files are somewhere else."""
    if not list(list_urls((step,))):
        return step
    if step.decontaminate is not None:
        return step.model_copy(update={"decontaminate": step.decontaminate.with_files(place)})
    if step.url_rules is not None:
        files = {kind: tuple(map(place, files)) for kind, files in step.url_rules.files.items()}
        return step.model_copy(update={"url_rules": step.url_rules.model_copy(update=files)})
    if step.language_id is not None:
        return step.model_copy(update={"language_id": step.language_id.with_files(place)})

    def placed(values: Any) -> Any:
        files = {**values} if isinstance(values, dict) else {}
        if "lists" in files:
            files["lists"] = {name: place(url) for name, url in files["lists"].items()}
        if "languages" in files:
            urls = files["languages"]
            files["languages"] = [place(url) for url in ([urls] if isinstance(urls, str) else urls)]
        return files or values

    return step.model_copy(update={step.kind: {name: placed(said) for name, said in step.does.items()}})
