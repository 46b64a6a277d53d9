"""Find and load quality models, and define the columns of their answers.

A model with labels returns the most probable label: columns `quality_pred`, `quality_prob`. A model with a single
output returns a score: columns `score`, `int_score`. A form is a kind of model; FORMS lists the forms.

`prepare` checks a model once, before other work, and stores its digest. Later stages compare the digest, so they
detect a model that is trained again in its folder.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Protocol

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, bad_input, first_line
from zyda_flows.tasks.quality import encoders
from zyda_flows.tasks.recipe.source import Classify
from zyda_flows.tasks.storage.records import Record

PREDICTION = pa.schema(
    [("doc_id", pa.uint64()), ("quality_pred", pa.string()), ("quality_prob", pa.float32())]
)
SCORE = pa.schema([("doc_id", pa.uint64()), ("score", pa.float32()), ("int_score", pa.int8())])
EXPECTED = "expected a folder with config.json and model.safetensors, or a hub name"
LOADING = Lock()

Answers = Callable[[Sequence[str]], list[pa.Array]]


class Form(Protocol):
    """A kind of model: a module with these constants and functions.

    FILES: patterns of the files of a model.
    Fault: the error for a model that cannot be loaded, with a message for the user.
    missing_libraries: returns which required libraries are not installed, and how to install them; or "".
    is_model: returns whether a folder has a model of this form.
    check: returns the labels of a model; raises Fault.
    digest_of_model: hashes all files on which the answers depend.
    load: returns a function that takes texts and returns the columns of the answers, without `doc_id`. device: cpu,
        cuda, or None for the best device of the machine.
    """

    @property
    def FILES(self) -> list[str]: ...
    @property
    def Fault(self) -> type[ValueError]: ...

    def missing_libraries(self) -> str: ...
    def is_model(self, folder: Path) -> bool: ...
    def check(self, folder: Path) -> tuple[str, ...]: ...
    def digest_of_model(self, folder: Path) -> str: ...
    def load(self, folder: Path, max_tokens: int, device: str | None) -> Answers: ...


FORMS: tuple[Form, ...] = (encoders,)


class Model(Record):
    """A quality model that `prepare` checked. revision: the commit of a model of the hub."""

    name: str
    revision: str | None
    digest: str
    labels: tuple[str, ...]

    @property
    def table_schema(self) -> pa.Schema:
        return PREDICTION if self.labels else SCORE

    @property
    def added_columns(self) -> list[pa.Field]:
        """The columns that the model adds to a source."""
        return [field for field in self.table_schema if field.name != "doc_id"]


def form_of(folder: Path) -> Form:
    """Return the form of a model. Raises ValueError for an unknown form."""
    form = next((form for form in FORMS if form.is_model(folder)), None)
    if form is None:
        raise ValueError("the folder has no model of a known form")
    return form


def model_folder(name: str, revision: str | None = None) -> Path:
    """Return the local folder of a model; a model of the hub is downloaded."""
    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        raise FileNotFoundError(f"there is no folder {name}")
    return Path(name) if Path(name).is_dir() else hub_folder(name, revision)


def hub_folder(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download  # late: it imports much

    patterns = sorted({pattern for form in FORMS for pattern in form.FILES})
    return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))


def digest_of_model(folder: Path) -> str:
    """Hash all files on which the answers of a model depend."""
    return form_of(folder).digest_of_model(folder)


def judged_model(source: str, classify: Classify) -> Model:
    """Find and check the model of a source. Raises BadInput if it cannot be loaded."""
    where = f"classify.model: {classify.model}"
    if all(missing := [form.missing_libraries() for form in FORMS]):  # before a download
        raise bad_input(source, f"{where}: {missing[0]}")
    try:
        folder = model_folder(classify.model, classify.revision)
        labels, digest = form_of(folder).check(folder), digest_of_model(folder)
    except tuple(form.Fault for form in FORMS) as error:
        raise bad_input(source, f"{where}: {error}") from error
    except Exception as error:  # transformers, torch and the hub raise many kinds of errors
        raise bad_input(source, f"{where} cannot be loaded: {first_line(error)}; {EXPECTED}") from error
    is_local = Path(classify.model).is_dir()
    revision = None if is_local else folder.name  # the hub's cache names a snapshot by its commit
    return Model(name=classify.model, revision=revision, digest=digest, labels=labels)


def load_model(model: Model, max_tokens: int, device: str | None = None) -> Answers:
    """Load a model, which is cached for all shards and threads of a worker.

    Raises BadInput if the files have changed since the digest was taken.
    """
    with LOADING:  # without the lock, two threads could load the model at the same time
        return cached_model(model.name, model.revision, model.digest, max_tokens, device)


@lru_cache(maxsize=2)
def cached_model(
    name: str, revision: str | None, digest: str, max_tokens: int, device: str | None
) -> Answers:
    folder = model_folder(name, revision)
    expect_digest(name, folder, digest)
    if missing := form_of(folder).missing_libraries():
        raise BadInput(f"classify.model: {name}: a worker cannot run it: {missing}")
    answers = form_of(folder).load(folder, max_tokens, device)
    expect_digest(name, folder, digest)  # the files may have changed during the load
    return answers


def expect_digest(name: str, folder: Path, digest: str) -> None:
    if digest_of_model(folder) != digest:
        raise BadInput(f"classify.model: {name}: its files have changed since the build began; build again")
