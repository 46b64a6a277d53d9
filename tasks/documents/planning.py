"""What is to be done to the documents of a source, with all that its outcome depends on."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pydantic import SerializerFunctionWrapHandler, model_serializer

from zyda_flows.tasks.documents.cleanings import PERSONAL_VERSION
from zyda_flows.tasks.documents.evaluation_sets import PlannedSet, planned_set
from zyda_flows.tasks.documents.extraction import FAILED, MARKDOWN, known_as
from zyda_flows.tasks.documents.functions import digest_of_code
from zyda_flows.tasks.documents.item_search import HELD, MARK, SURROUNDED, VERSION, search_for
from zyda_flows.tasks.documents.language_rules import LanguageRules, check_written_with_spaces, language_rules
from zyda_flows.tasks.documents.languages import LANGUAGE, PlannedLanguages, kept_languages, planned_languages
from zyda_flows.tasks.documents.languages import PUBLISHED as LANGUAGE_COLUMNS
from zyda_flows.tasks.documents.languages import RULES as LANGUAGE_RULES
from zyda_flows.tasks.documents.languages import TYPES as LANGUAGE_TYPES
from zyda_flows.tasks.documents.licenses import LICENSE, RULES
from zyda_flows.tasks.documents.url_rules import RULE, SENTENCES, PlannedUrlRules, planned_url_rules, rules_of
from zyda_flows.tasks.errors import BadInput, BadRecipe, Unavailable, ZydaError
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.evaluation import Decontaminate
from zyda_flows.tasks.recipe.faults import place_in_recipe
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.license_filter import LicenseFilter
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.recipe.rule_settings import Limits, RuleSettings
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.spdx import version
from zyda_flows.tasks.recipe.steps import Step
from zyda_flows.tasks.recipe.web_steps import LanguageId
from zyda_flows.tasks.sources.column_names import ADDED_BY_MODEL, RESERVED_NAMES
from zyda_flows.tasks.sources.selection import Selection
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

STATISTICS = "document_steps"  # the column of a shard with what was measured of its documents
EMPTIED, FOUND, ITEMS = "emptied", "found", "items"
NOTED = {"license_filter", "url_rules", "language_id"}  # kinds of steps that note what breaks their rules
OF_LANGUAGES = {"languages", "by_language", "stop_words"}


class Bound(Record):
    """A rule: the column of the statistics that it looks at, and which values let a document stay.

    One without low and high, of licences or a filter of the user's own, is noted: whatever text stands in its
    column lets a document go, and is the note of its evidence. by_language: low and high of languages, which
    `languages`, a column of the statistics, names; they hold in place of the others.
    """

    rule: str
    column: str
    low: float | None = None
    high: float | None = None
    languages: str = ""
    by_language: dict[str, Limits] = {}

    @model_serializer(mode="wrap")
    def without_languages(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out languages where there are none: what was judged by such rules has the same key."""
        return {name: value for name, value in dump(self).items() if value or name not in OF_LANGUAGES}

    @property
    def is_noted(self) -> bool:
        return self.low is None and self.high is None and not self.languages


class Measure(Record):
    """A rule set whose statistics are wanted.

    terms: of the lists that it counts, by their names. digests: of the files that these were read from, SHA-256.
    stop_words: by the language, which `languages`, a column of the statistics, names.
    """

    of: str
    options: dict[str, Any] = {}
    terms: dict[str, tuple[str, ...]] = {}
    digests: dict[str, str] = {}
    languages: str = ""
    stop_words: dict[str, tuple[str, ...]] = {}

    @model_serializer(mode="wrap")
    def without_languages(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out languages where there are none, as `Bound` does."""
        return {name: value for name, value in dump(self).items() if value or name not in OF_LANGUAGES}


class PlannedStep(Record):
    """One step, the `number`th.

    code: a hash of the module of the user's own function, if it is one. evaluation: the sets that it looks for.
    search: the version of what looks for them. marks: whether documents that hold items get a column that says
    so. cuts: the share of phrases for which a passage goes, 0 where none does. licenses: what a license_filter
    says. lists: the versions of those that its names are looked up in. extractor: one of ours, with its
    version. urls, languages: the files that such a step looks into. is_markdown: whether the step looks at prose in
    Markdown, or cleans it. personal: the version of what finds personal data, if the step does.
    """

    number: int
    kind: str
    name: str
    cleaning: dict[str, Any] | None = None
    measures: tuple[Measure, ...] = ()
    bounds: tuple[Bound, ...] = ()
    function: str | None = None
    code: str | None = None
    evaluation: tuple[PlannedSet, ...] = ()
    answer_within: int = 0
    search: str = ""
    marks: bool = False
    cuts: float = 0
    licenses: dict[str, Any] = {}
    lists: str = ""
    extractor: str = ""
    urls: PlannedUrlRules | None = None
    languages: PlannedLanguages | None = None
    is_markdown: bool = False
    personal: str = ""

    @model_serializer(mode="wrap")
    def without_what_says_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what other steps have not: what was ingested with them before has the same key."""
        later = {
            "evaluation", "answer_within", "search", "marks", "cuts", "licenses", "lists", "extractor", "urls",
            "languages", "is_markdown", "personal",
        }  # fmt: skip
        return {name: value for name, value in dump(self).items() if value or name not in later}

    def columns(self) -> Iterator[pa.Field]:
        """Return the columns of its statistics."""
        if self.kind in {"clean", "extract"}:
            yield pa.field(f"{self.number}.{EMPTIED}", pa.float64())
            if self.extractor:
                yield pa.field(f"{self.number}.{FAILED}", pa.string())
        elif self.urls:
            yield from (pa.field(f"{self.number}.{RULE}.{kind}", pa.string()) for kind, _ in self.urls.files)
        elif self.languages:
            for name, of in LANGUAGE_COLUMNS.items():
                yield pa.field(f"{self.number}.{of}", LANGUAGE_TYPES[name])
            if self.languages.keep:
                yield from (pa.field(f"{self.number}.{rule}", pa.string()) for rule in LANGUAGE_RULES)
        elif self.evaluation:
            yield pa.field(f"{self.number}.{FOUND}", SURROUNDED)
            yield pa.field(f"{self.number}.{ITEMS}", HELD)
            if self.cuts:
                yield pa.field(f"{self.number}.{EMPTIED}", pa.float64())
        elif self.licenses:
            yield from (pa.field(f"{self.number}.{name}", pa.string()) for name in (LICENSE, *RULES))
        elif self.function:
            kind = pa.string() if self.kind == "filter" else pa.float64()
            yield pa.field(f"{self.number}.{self.function}", kind)
        for measure in self.measures:
            for name in statistics_of(measure.of, measure.terms):
                yield pa.field(f"{self.number}.{measure.of}.{name}", pa.float64())


@dataclass(frozen=True)
class Languages:
    """What a step says of languages, before others that have values for each. column: of the statistics."""

    column: str = ""
    said: LanguageId | None = None

    def rules_of(self, settings: RuleSettings) -> dict[str, LanguageRules]:
        """Return what the files of a set say of each language that is kept. Raises BadInput."""
        name = f"{settings.name}.languages"
        if not settings.languages:
            return {}
        kept = kept_languages(self.said) if self.said else {}
        if not kept:
            raise BadInput(
                f"{name}: a step before it has to say which languages stay: language_id with `keep`"
            )
        found = language_rules(name, settings.languages)
        if without := [language for language in kept if language not in found]:
            raise BadInput(f"{name}: there is no file for {without[0]}, which language_id keeps")
        rules = {language: found[language] for language in kept}
        check_written_with_spaces(name, rules)
        return rules

    def bounds_of(self, settings: RuleSettings) -> dict[str, dict[str, Limits]]:
        """Return the values of each language for the rules of a set that its step does not name, by rule."""
        rules = self.rules_of(settings)
        of_files = {rule for of_language in rules.values() for rule in of_language.bounds} - settings.said
        return {
            rule: {language: of.bounds.get(rule, settings.bounds[rule]) for language, of in rules.items()}
            for rule in of_files & settings.bounds.keys()
        }


def languages_of(before: Sequence[Step]) -> Languages:
    """Return what the steps before another one say of languages."""
    for number, step in enumerate(before, 1):
        if step.language_id is not None:
            return Languages(f"{number}.{LANGUAGE}", step.language_id)
    return Languages()


def reads_prose(step: Step, before: Sequence[Step]) -> bool:
    """Say whether a step is for the prose of texts that are Markdown, and leaves their code and tables out."""
    if step.function or not any(one.extract in MARKDOWN for one in before):
        return False
    return step.kind in {"filter", "measure", "language_id"} or (
        step.kind == "clean" and bool(step.cleaning.lines)
    )


class DocumentPlan(Record):
    """The steps of a source. keeps_text: whether documents that go keep their text, and all is measured."""

    steps: tuple[PlannedStep, ...] = ()
    keeps_text: bool = False

    @property
    def published(self) -> list[str]:
        """Return the names of the columns that are put beside the documents."""
        measuring = (step for step in self.steps if step.kind == "measure")
        marks = [MARK.name for step in self.steps if step.marks]
        marks += [name for step in self.steps if step.languages for name in LANGUAGE_COLUMNS]
        return marks + [
            name
            for step in measuring
            for name, _ in columns_of_step(
                step.number, step.function, [(m.of, m.terms) for m in step.measures]
            )
        ]

    def columns(self) -> pa.Schema:
        """Return what is measured: the fields of STATISTICS."""
        return pa.schema([field for step in self.steps for field in step.columns()])


def measured_statistics(plan: DocumentPlan) -> list[str]:
    """Return the rule sets of a plan, each with the statistics that it measures."""
    sets = sorted({measure.of for step in plan.steps for measure in step.measures})
    return [f"{of}: {' '.join(RULE_SETS[of].rules)}" for of in sets]


def plan_documents(recipe: Recipe, source: str) -> DocumentPlan:
    """Read what the steps of a source need. Raises BadRecipe with the line of the recipe."""
    recipe_steps = recipe.steps_of(source)
    place = [place for place, one in enumerate(recipe.sources) if one.name == source]
    own = recipe.source(source).documents is not None
    location: tuple[str | int, ...] = ("sources", place[0], "documents") if own else ("documents",)
    steps = list[PlannedStep]()
    for i, step in enumerate(recipe_steps):
        try:
            check_carried(recipe.source(source), step)
            steps.append(planned_step(recipe, i + 1, step, recipe_steps[:i]))
        except Unavailable:  # a store that may answer later
            raise
        except (ZydaError, ValueError) as error:
            raise BadRecipe(f"{place_in_recipe(recipe, *location, i)}: {error}") from error
    listed = {repr(m.stop_words) for step in steps for m in step.measures if m.languages}
    if len(listed) > 1:
        raise BadRecipe(f"{place_in_recipe(recipe, *location)}: two steps name different files of languages")
    columns = [name for name, _ in published_columns(recipe_steps)]
    at = place_in_recipe(recipe, *location) if columns else ""
    for name in columns:
        if columns.count(name) > 1:
            raise BadRecipe(f"{at}: {name} is measured twice, and has one column; leave one out")
        if name in {*DOCUMENT_COUNTS.names, *RESERVED_NAMES, *ADDED_BY_MODEL, "text"}:
            raise BadRecipe(f"{at}: {name} is a column of every corpus; give the function another name")
    return DocumentPlan(steps=tuple(steps), keeps_text=recipe.keep_text and bool(steps))


def planned_step(recipe: Recipe, number: int, step: Step, before: Sequence[Step]) -> PlannedStep:
    languages = languages_of(before)
    cleaning = step.cleaning.model_dump() if step.kind == "clean" and not step.function else None
    is_ours = step.kind == "extract" and not step.function
    of_sets = step.kind in {"filter", "measure"} and not step.function
    if cleaning is not None:
        check_cleaning(cleaning)
    measures = tuple(measures_of(step, languages)) if of_sets else ()
    finds_personal = bool(cleaning and cleaning.get("pii")) or any(one.of == "pii" for one in measures)
    return PlannedStep(
        number=number,
        kind=step.kind,
        name=step.name,
        cleaning=cleaning,
        measures=measures,
        # Of documents that keep their text, the filters decide later, from the statistics alone.
        bounds=() if recipe.keep_text else tuple(bounds_of_step(number, step, languages)),
        function=step.function,
        code=digest_of_code(step.function) if step.function else None,
        **planned_evaluation(step.decontaminate),
        **planned_licenses(step.license_filter),
        extractor=known_as(str(step.extract)) if is_ours else "",
        urls=planned_url_rules(step.url_rules) if step.url_rules else None,
        languages=planned_languages(step.language_id) if step.language_id else None,
        is_markdown=reads_prose(step, before),
        personal=PERSONAL_VERSION if finds_personal else "",
    )


def naming_columns(recipe: Recipe, source: str) -> dict[str, str]:
    """Return the columns of STATISTICS with the licence and the language of each document, if a step finds them."""
    columns = dict[str, str]()
    for number, step in enumerate(recipe.steps_of(source), 1):
        if step.license_filter is not None:
            columns["licenses"] = f"{number}.{LICENSE}"
        if step.language_id is not None:
            columns["languages"] = f"{number}.{LANGUAGE}"
    return columns


def check_carried(source: Source, step: Step) -> None:
    """Raise ValueError where a source does not carry a column that a step reads or cleans beside the text."""
    carried = Selection(only=source.columns, without=source.without)
    for column in step.columns:
        if column == source.text:
            raise ValueError(f"{step.kind}: {column} is the text of source {source.name}")
        if column not in carried and column.partition(".")[0] not in carried:
            raise ValueError(
                f"{step.kind}: source {source.name} does not carry its column {column}; see its "
                f"`{'without' if source.without else 'columns'}`"
            )


def planned_licenses(said: LicenseFilter | None) -> dict[str, Any]:
    return {} if said is None else {"licenses": said.model_dump(), "lists": version()}


def planned_evaluation(said: Decontaminate | None) -> dict[str, Any]:
    """Read the sets that a step looks for. Raises BadInput where one has no items, or none with an answer."""
    if said is None:
        return {}
    sets = tuple(planned_set(name, one) for name, one in said.sets.items())
    search_for(sets, said.answer_within)
    return {
        "evaluation": sets, "answer_within": said.answer_within, "search": VERSION,
        "marks": said.action != "remove", "cuts": said.share if said.action == "cut" else 0,
    }  # fmt: skip


def check_cleaning(cleaning: Mapping[str, Any]) -> None:
    """Raise ValueError for options that ftfy does not have."""
    if cleaning["unicode"]:
        from zyda_flows.textkernels.texts.repair import check_options

        check_options(cleaning["unicode"] if isinstance(cleaning["unicode"], dict) else {})


def measures_of(step: Step, languages: Languages) -> Iterator[Measure]:
    """Return the rule sets that a step wants to be measured, each once, with the terms of its lists."""
    named = dict[str, Measure]()
    for settings in step.sets():
        contents = {name: content_of(url) for name, url in settings.lists.items()}
        terms = {name: terms_of(settings.lists[name], content) for name, content in contents.items()}
        digests = {name: sha256(content).hexdigest() for name, content in contents.items()}
        for of in [settings.of] if settings.of else [rule.partition(".")[0] for rule in settings.bounds]:
            options = settings.options if settings.of else RULE_SETS[of].options
            measure = Measure(of=of, options=options, terms=terms, digests=digests)
            if settings.languages:
                words = {name: rules.stop_words for name, rules in languages.rules_of(settings).items()}
                measure = measure.model_copy(update={"languages": languages.column, "stop_words": words})
            named.setdefault(of, measure)
    yield from named.values()


def content_of(url: str) -> bytes:
    """Read a list of terms. Raises Denied, Unavailable, and ValueError where there is none."""
    folder, _, name = url.rpartition("/")
    content = Folder(folder or "/").read_if_there(name)
    if content is None:
        raise ValueError(f"{url}: there is no such file")
    if len(content) > limits().rules_bytes:
        raise ValueError(f"{url}: it has {len(content):,} bytes, expected at most {limits().rules_bytes:,}")
    return content


def terms_of(url: str, content: bytes) -> tuple[str, ...]:
    """Return the terms of a list, which are regular expressions. Raises ValueError."""
    from zyda_flows.textkernels.texts.patterns import Patterns, word_list

    terms = word_list(content, url)
    for term in terms:
        try:
            Patterns((term,))
        except re.error as error:
            raise ValueError(f"{url}: {term!r} is no regular expression: {error}") from error
    return terms


def bounds_of(recipe: Recipe, source: str) -> tuple[Bound, ...]:
    """Return the rules of a source in their order."""
    steps = recipe.steps_of(source)
    return tuple(
        bound
        for i, step in enumerate(steps)
        for bound in bounds_of_step(i + 1, step, languages_of(steps[:i]))
    )


def bounds_of_step(number: int, step: Step, languages: Languages) -> Iterator[Bound]:
    if step.extract is not None and not step.function:
        yield Bound(rule=f"{step.name}.{FAILED}", column=f"{number}.{FAILED}")
    if step.is_cleaning or step.cuts:
        yield Bound(rule=f"{step.name}.{EMPTIED}", column=f"{number}.{EMPTIED}", high=0)
    elif step.kind in NOTED:
        yield from (Bound(rule=rule, column=f"{number}.{rule}") for rule in noted_rules(step))
    elif step.kind == "filter" and step.function:
        yield Bound(rule=step.function, column=f"{number}.{step.function}")
    elif step.kind == "filter":
        for settings in step.sets():
            by_language = languages.bounds_of(settings)
            for rule, (low, high) in settings.bounds.items():
                column = f"{number}.{settings.name}.{rule}" if settings.of else f"{number}.{rule}"
                of_each = by_language.get(rule, {})
                yield Bound(
                    rule=f"{settings.name}.{rule}", column=column, low=low, high=high,
                    languages=languages.column if of_each else "", by_language=of_each,
                )  # fmt: skip


def noted_rules(step: Step) -> dict[str, str]:
    """Return the rules of a step that notes what breaks them, each with what it means."""
    if step.url_rules is not None:
        return rules_of(step.url_rules)
    if step.language_id is not None:
        return LANGUAGE_RULES if step.language_id.keep else {}
    return RULES


def noted_sentences() -> dict[str, str]:
    """Return what each rule means that is noted, of all steps."""
    return {**RULES, **LANGUAGE_RULES, **{f"{RULE}.{kind}": sentence for kind, sentence in SENTENCES.items()}}


def published_columns(steps: tuple[Step, ...]) -> Iterator[tuple[str, str]]:
    """Return the columns that steps put beside the documents, each with that of the statistics."""
    for number, step in enumerate(steps, 1):
        if step.language_id is not None:
            yield from ((name, f"{number}.{of}") for name, of in LANGUAGE_COLUMNS.items())
        if step.kind == "measure":
            sets = [] if step.function else [(settings.name, settings.lists) for settings in step.sets()]
            yield from columns_of_step(number, step.function, sets)


def columns_of_step(
    number: int, function: str | None, sets: Iterable[tuple[str, Collection[str]]]
) -> Iterator[tuple[str, str]]:
    """Return the columns that one `measure` publishes, each with that of the statistics. sets: with their lists."""
    if function:
        yield function.partition(":")[2], f"{number}.{function}"
    for of, lists in sets:
        for rule in statistics_of(of, lists):
            yield f"{of}_{rule}".replace("-", "_"), f"{number}.{of}.{rule}"


def statistics_of(of: str, lists: Collection[str]) -> list[str]:
    """Return the statistics of a set, without those of lists that nobody gives."""
    of_set = RULE_SETS[of]
    return [rule for rule in of_set.rules if of_set.lists.get(rule) in (None, *lists)]
