"""Find and load the models of judges, and define the columns of their answers.

The columns of judge `edu` are `edu_pred` and `edu_prob`, the most probable label and its probability, and, if the
recipe asks for them, the probability of each label in `edu_LABEL`; or `edu_score` and `edu_int_score` if the model
has a single output; or `edu_perplexity` of a model of n-grams. The columns of a model with several heads begin with
the name of the judge and of the head: `edu_level_score`. The judge of `classify` adds `quality_pred` and
`quality_prob`, or `score` and `int_score`, which are the names in FineWeb-Edu. A form is a kind of model, known by
the name of the model, by the first bytes of a file .bin, or by judge.json in a folder; FORMS has the forms by their
names.

`prepare` checks a model once, before other work, and stores its digest. Later stages compare the digest, so they
detect a model that is trained again in its folder.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, bad_input, first_line, one_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality import encoders, fasttext_models, kenlm_models, token_models
from zyda_flows.tasks.quality.encoder_files import Fault
from zyda_flows.tasks.quality.heads import ModelHead
from zyda_flows.tasks.quality.loading import Loaded, Loader, load_unchanged
from zyda_flows.tasks.recipe.judges import QUALITY, Judge
from zyda_flows.tasks.storage.records import Record

DECIDED = ("pred", "prob")
NAMES_OF_CLASSIFY = {"quality_score": "score", "quality_int_score": "int_score"}

Answers = Callable[[pa.ChunkedArray], list[pa.Array]]


class Form(Protocol):
    """A kind of model: a module with these constants and functions.

    EXPECTED: what the name of a model should be, for errors.
    MODULES: modules that take seconds to import, which workers share.
    missing_libraries: returns which required libraries are not installed, and how to install them; or "".
    is_named: returns whether a name is that of a model of this form.
    locate: returns the local path of a model; a model of the hub is downloaded. Raises FileNotFoundError.
    check: returns the heads of a model; raises Fault.
    digest_of_model: hashes all files on which the answers depend.
    precision: returns the device and the number format on which the answers depend.
    columns: returns the columns of the answers of a model with these heads. judge: the prefix of their names.
        every_label: whether each label has a column.
    load: returns a function that takes texts and returns the columns of the answers. device: cpu, cuda, or None for
        the best device of the machine.
    """

    @property
    def EXPECTED(self) -> str: ...
    @property
    def MODULES(self) -> tuple[str, ...]: ...

    def missing_libraries(self) -> str: ...
    def is_named(self, name: str) -> bool: ...
    def locate(self, name: str, revision: str | None) -> Path: ...
    def check(self, path: Path) -> tuple[ModelHead, ...]: ...
    def digest_of_model(self, path: Path) -> str: ...
    def precision(self, device: str | None) -> str: ...
    def columns(self, heads: tuple[ModelHead, ...], judge: str, *, every_label: bool) -> list[pa.Field]: ...
    def load(self, path: Path, max_tokens: int, device: str | None, *, every_label: bool) -> Answers: ...


FORMS: dict[str, Form] = {
    "kenlm": kenlm_models,
    "fasttext": fasttext_models,
    "tokens": token_models,
    "encoder": encoders,
}


class ModelFiles(NamedTuple):
    """The files of a model, for caches. form: its name in FORMS."""

    form: str
    name: str
    revision: str | None
    digest: str


class Model(Record):
    """The model of a judge, which `prepare` checked.

    form: its name in FORMS. revision: the commit of a model of the hub. every_label: whether each label has a
    column.
    """

    judge: str
    form: str
    name: str
    revision: str | None
    digest: str
    heads: tuple[ModelHead, ...] = (ModelHead(),)
    every_label: bool = False

    @property
    def files(self) -> ModelFiles:
        return ModelFiles(self.form, self.name, self.revision, self.digest)

    @property
    def field(self) -> str:
        """The field of the recipe that describes the judge, for messages."""
        return "classify" if self.judge == QUALITY else f"judge {self.judge}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the model's only head."""
        return self.heads[0].labels if len(self.heads) == 1 else ()

    @property
    def table_schema(self) -> pa.Schema:
        return pa.schema([("doc_id", pa.uint64()), *self.added_columns])

    @property
    def added_columns(self) -> list[pa.Field]:
        """The columns that the model adds to a source."""
        columns = FORMS[self.form].columns(self.heads, self.judge, every_label=self.every_label)
        if self.judge != QUALITY:
            return columns
        return [column.with_name(NAMES_OF_CLASSIFY.get(column.name, column.name)) for column in columns]

    def precision(self, device: str | None) -> str:
        """Return the device and the number format on which the answers depend."""
        return FORMS[self.form].precision(device)


def form_of(name: str) -> str:
    """Return the form of a model by its name in a recipe, or by its local path."""
    return next(form for form, module in FORMS.items() if module.is_named(name))


def digest_of_model(name: str, revision: str | None = None) -> str:
    """Hash all files on which the answers of a model depend; a model of the hub is downloaded."""
    path = FORMS[form_of(name)].locate(name, revision)
    return FORMS[form_of(str(path))].digest_of_model(path)


def judged_model(judge: Judge, source: str = "") -> Model:
    """Find and check the model of a judge. Raises BadInput if it cannot be loaded.

    source: whose judge it is, for messages; "" for a judge of the recipe.
    """
    form = FORMS[form_of(judge.model)]
    if missing := form.missing_libraries():  # before a download
        raise model_fault(judge, source, f": {missing}")
    try:
        path = form.locate(judge.model, judge.revision)
        form = FORMS[name := form_of(str(path))]  # a .bin of the hub is known by its first bytes
        heads, digest = form.check(path), form.digest_of_model(path)
    except Fault as error:
        raise model_fault(judge, source, f": {error}") from error
    except Exception as error:  # transformers, torch and the hub raise many kinds of errors
        reason = f" cannot be loaded: {first_line(error)}; {form.EXPECTED}"
        raise model_fault(judge, source, reason) from error
    model = Model(
        judge=judge.name,
        form=name,
        name=judge.model,
        revision=None if Path(judge.model).exists() else commit_of(path),
        digest=digest,
        heads=heads,
        every_label=judge.probabilities,
    )
    if fault := fault_of_columns(model):
        raise model_fault(judge, source, f": {fault}")
    return model


def fault_of_columns(model: Model) -> str | None:
    """Return why the answers of a model cannot be columns, or None."""
    if model.every_label and not any(head.labels for head in model.heads):
        return "it returns scores and has no labels; remove `probabilities`"
    names = [column.name for column in model.added_columns]
    if len(names) > (bound := limits().model_labels) + len(DECIDED) * len(model.heads):
        return f"it has {len(model.labels):,} labels, and at most {bound:,} can be columns"
    times = Counter(name.lower() for name in names)  # as SQL compares names
    if twice := [name for name in names if times[name.lower()] > 1]:
        return f"two of its results would be the column {twice[0]}; train it with other labels"
    return None


def model_fault(judge: Judge, source: str, fault: str) -> BadInput:
    """Return the error for a fault of a judge's model. source: as for `judged_model`."""
    message = f"{judge.field}.model: {judge.model}{fault}"
    return bad_input(source, message) if source else BadInput(one_line(message))


def commit_of(path: Path) -> str:
    """Return the commit of a path in the hub's cache: a name in `snapshots`, or the name of the path itself."""
    parts = path.parts
    return parts[parts.index("snapshots") + 1] if "snapshots" in parts[:-1] else path.name


def load_model(model: Model, max_tokens: int, device: str | None = None) -> Answers:
    """Load a model, which is cached for all shards and threads of a worker.

    Raises BadInput if the files have changed since the digest was taken.
    """
    return cached_model(model.files, max_tokens, device, every_label=model.every_label)


@Loader
def cached_model(files: ModelFiles, max_tokens: int, device: str | None, *, every_label: bool) -> Answers:
    form = FORMS[files.form]
    return load_files(files, lambda path: form.load(path, max_tokens, device, every_label=every_label))


def load_files(files: ModelFiles, load: Callable[[Path], Loaded]) -> Loaded:
    """Load a model by its local path. Raises BadInput if its files changed, or if libraries are missing."""
    path = FORMS[files.form].locate(files.name, files.revision)
    if missing := FORMS[files.form].missing_libraries():
        raise BadInput(f"model {files.name}: a worker cannot run it: {missing}")
    current_digest = partial(digest_of_model, files.name, files.revision)
    return load_unchanged(files.name, files.digest, current_digest, lambda: load(path))
