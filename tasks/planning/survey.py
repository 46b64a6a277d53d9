"""The survey of a recipe's sources: listed and checked without reading documents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.dedup.reference.corpora import corpora_of
from zyda_flows.tasks.documents.deny_list import read_lists
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.errors import BadInput, BadRecipe, Denied, bad_input
from zyda_flows.tasks.labels.label_tables import LabelTable, find_labels
from zyda_flows.tasks.planning.last_build import recorded_files, whole_register
from zyda_flows.tasks.quality.forms import Model, judged_model
from zyda_flows.tasks.quality.vector_forms import expect_body
from zyda_flows.tasks.recipe.faults import Location, with_place
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.rounds import rounds_of
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.semantic.models import check_models
from zyda_flows.tasks.sources.copies import list_source_files
from zyda_flows.tasks.sources.input_files import InputFile, sampled_files
from zyda_flows.tasks.sources.reading import InspectedFile
from zyda_flows.tasks.sources.register import Register
from zyda_flows.tasks.tokens.stored import load_tokenizer


@dataclass(frozen=True)
class SourceSurvey:
    """The listed sources of a recipe, in the order of their rank, and the numbers of their files.

    listed: all files of each source. chosen: the files of the sample. models: of the judges of each source without
    a fault, in order. inspected: the chosen files without a number, if they were inspected. documents: the steps on
    documents of each source. denied: the SHA-256 of the deny lists, by URL. labels: of the joins of each source,
    None for a source with a fault in them.
    """

    register: Register
    listed: list[list[InputFile]]
    chosen: list[list[InputFile]]
    models: dict[str, tuple[Model, ...]]
    documents: list[DocumentPlan]
    denied: dict[str, str] = field(default_factory=dict)
    labels: list[tuple[LabelTable, ...] | None] = field(default_factory=list)
    inspected: list[list[InspectedFile]] = field(default_factory=list)
    faults: tuple[str, ...] = ()

    def with_inspected(self, inspected: list[list[InspectedFile]]) -> "SourceSurvey":
        return replace(self, inspected=inspected)

    def expect_none(self, *more: str) -> None:
        """Raise BadRecipe with the detected faults and further ones, if there are any."""
        if self.faults or more:
            raise BadRecipe(*self.faults, *more)


def check_sources(recipe: Recipe, *, replace: bool = False) -> SourceSurvey:
    """Detect the faults that can be detected without reading documents, and list the sources.

    The faults are in the result, so that later checks can add others; a source with a fault has no files there.
    Raises BadRecipe if another corpus is published under the name, or if a source is the published corpus.
    """
    folder = recipe.folder
    register = whole_register(folder)
    sources = [*enumerate(recipe.sources)]
    listing = [
        FieldCheck(partial(list_source_files, source, recipe.inputs), ("sources", i, "files"))
        for i, source in sources
    ]
    models_by_judge, judge_faults = shared_models(recipe)
    model_checks = [
        FieldCheck(partial(models_of, recipe, source, models_by_judge), ("sources", i, "classify"))
        for i, source in sources
    ]
    planning = [FieldCheck(partial(plan_documents, recipe, source.name)) for _, source in sources]
    finding = [
        FieldCheck(partial(find_all_labels, source, recipe.inputs), ("sources", i, "join"))
        for i, source in sources
    ]
    checks = [
        FieldCheck(partial(load_tokenizer, recipe.tokenizer), ("tokenizer",)),
        FieldCheck(folder.check_writable),
        FieldCheck(partial(corpora_of, recipe)),
        *(
            FieldCheck(partial(check_models, each), ("dedup", each.number - 1, "semantic"))
            for each in rounds_of(recipe)
            if isinstance(each.dedup, SemanticRound)
        ),
    ]
    by_source = [
        call_each(recipe, source_checks)
        for source_checks in zip(listing, model_checks, planning, finding, strict=True)
    ]
    (denied,), list_faults = call_each(recipe, [FieldCheck(partial(read_lists, recipe), ("deny",))])
    source_faults = [fault for _, faults_of_source in by_source for fault in faults_of_source]
    faults = judge_faults + source_faults + call_each(recipe, checks)[1] + list_faults
    listed, models, documents, labels = (
        list(answers) for answers in zip(*(results for results, _ in by_source), strict=True)
    )
    listed = [files or [] for files in listed]
    chosen = [sampled_files(files, recipe.sample) for files in listed]
    if not faults:
        check_reads_no_output(recipe, chosen, labels)
        if not replace:
            check_same_corpus(recipe, chosen)
    named = {
        source.name: each for source, each in zip(recipe.sources, models, strict=True) if each is not None
    }
    return SourceSurvey(
        register, listed, chosen, named, documents, denied or {}, labels, faults=tuple(faults)
    )


def find_all_labels(source: Source, inputs: str | None) -> tuple[LabelTable, ...]:
    """Find the labels of a source's joins. inputs: the folder of copies, or None. Raises BadInput."""
    return tuple(find_labels(source, join, inputs) for join in source.joins)


def check_same_corpus(recipe: Recipe, chosen: Sequence[Sequence[InputFile]]) -> None:
    """Check that the corpus published under this name was made from these sources, or from fewer of them.

    A source is a different one if none of its files is the same. Raises BadRecipe.
    """
    folder = recipe.folder
    now = {s.name: {file.url for file in files} for s, files in zip(recipe.sources, chosen, strict=True)}
    manifest, before = published_manifest(folder), recorded_files(folder)
    published = {origin.source for origin in manifest.made_of} if manifest else set()
    missing_sources = [name for name in sorted(published | before.keys()) if name not in now]
    renewed = [name for name, files in before.items() if name in now and not now[name] & files.keys()]
    faults = [f"its {', '.join(missing_sources)} would be removed"] if missing_sources else []
    faults += [f"none of the files of source {name} is in the recipe any more" for name in renewed]
    if faults:
        corpus_there = "a corpus with other sources" if missing_sources else "a corpus of other files"
        raise BadRecipe(
            f"{folder.url}: {corpus_there} is published there: {'; '.join(faults)}. "
            "Use --replace to replace it, or give this recipe another name"
        )


def check_reads_no_output(
    recipe: Recipe,
    chosen: Sequence[Sequence[InputFile]],
    labels: Sequence[Sequence[LabelTable] | None],
) -> None:
    """Raise BadRecipe if a source or a join reads the published corpus of this recipe, which each build changes."""
    output = f"{recipe.folder.url}/published/"
    for source, files, tables in zip(recipe.sources, chosen, labels, strict=True):
        labels_files = [file for table in tables or () for file in table.files]
        if any(file.url.startswith(output) for file in [*files, *labels_files]):
            raise BadRecipe(
                f"source {source.name}: it reads the published corpus of this recipe ({output}), which each build "
                "changes; copy it, or build under another name"
            )


class FieldCheck(NamedTuple):
    """A function that raises the faults of a field. location: of the field in the recipe, if any."""

    call: Callable[[], Any]
    location: Location = ()


def call_each(recipe: Recipe, checks: Iterable[FieldCheck]) -> tuple[list[Any], list[str]]:
    """Call all checks; return their results, None for failures, and the faults with their lines of the recipe."""
    answers, faults = list[Any](), list[str]()
    for check in checks:
        try:
            answers.append(check.call())
        except (BadRecipe, BadInput, Denied) as error:
            answers.append(None)
            faults += [with_place(recipe, check.location, fault) for fault in error.faults]
    return answers, faults


def shared_models(recipe: Recipe) -> tuple[dict[Judge, Model | None], list[str]]:
    """Check the models of the recipe's judges, each once for all sources.

    Returns the models, None for those with a fault, and the faults.
    """
    used = {judge for source in recipe.sources for judge in recipe.judges_of(source.name)}
    judges = {judge: i for i, judge in enumerate(recipe.judges) if judge in used}
    checks = [FieldCheck(partial(judged_model, judge), ("judges", i)) for judge, i in judges.items()]
    models, faults = call_each(recipe, checks)
    return dict(zip(judges, models, strict=True)), faults


def models_of(
    recipe: Recipe, source: Source, models: Mapping[Judge, Model | None]
) -> tuple[Model, ...] | None:
    """Check the models of a source's judges, and that `classify` names labels of its model. Raises BadInput.

    models: of the recipe's judges, None for those with a fault. Returns None if the source has such a judge.
    """
    judges = recipe.judges_of(source.name)
    checked = [models[judge] if judge in models else judged_model(judge, source.name) for judge in judges]
    if None in checked:
        return None
    found = tuple(model for model in checked if model is not None)
    unknown = (
        [label for label in source.classify.keep if label not in found[-1].labels] if source.classify else []
    )
    if unknown:
        labels = ", ".join(found[-1].labels) or "none: it gives a number, which `keep` can read"
        raise bad_input(
            source.name, f"classify.keep: {found[-1].name} has no label {unknown[0]}; there are {labels}"
        )
    for judge, model in zip(judges, found, strict=True):
        if judge.name in recipe.publish_vectors:
            expect_body(model, judge.max_tokens)
    return found
