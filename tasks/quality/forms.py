"""Forms of quality models: where a model comes from, what it says, and what its columns are called.

A model with labels says the most probable: columns `quality_pred`, `quality_prob`. One with a single output
gives a score: columns `score`, `int_score`. How it is read and run is the matter of its form, of which
FORMS is the table.

`prepare` judges a model once, before any work, and notes its digest; every stage after it goes by that,
so a model that is trained again in its folder is never taken for the one before.
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
    """A kind of model: a module with these functions.

    FILES are the patterns of the files that it is made of; `missing_libraries` returns which of the libraries that
    run it are not installed, and how to install them, or nothing; `is_one` says whether a folder holds one; `judge`
    returns its labels, or raises Fault where that is a thing that a person can mend; `digest_of_model` hashes
    all that decides what it says; `load`
    gives what takes texts and returns the columns of its answers, without `doc_id`. device: cpu, or None for
    the best of the machine.
    """

    @property
    def FILES(self) -> list[str]: ...
    @property
    def Fault(self) -> type[ValueError]: ...

    def missing_libraries(self) -> str: ...
    def is_one(self, folder: Path) -> bool: ...
    def judge(self, folder: Path) -> tuple[str, ...]: ...
    def digest_of_model(self, folder: Path) -> str: ...
    def load(self, folder: Path, max_tokens: int, device: str | None) -> Answers: ...


FORMS: tuple[Form, ...] = (encoders,)


class Model(Record):
    """A quality model as `prepare` found it: `revision` is the commit of a hub name."""

    name: str
    revision: str | None
    digest: str
    labels: tuple[str, ...]

    @property
    def table_schema(self) -> pa.Schema:
        return PREDICTION if self.labels else SCORE

    @property
    def added_columns(self) -> list[pa.Field]:
        """The columns that the model gives a source."""
        return [field for field in self.table_schema if field.name != "doc_id"]


def form_of(folder: Path) -> Form:
    """Return the form of a model. Raises ValueError where it is of none."""
    form = next((form for form in FORMS if form.is_one(folder)), None)
    if form is None:
        raise ValueError("there is no model of a form that is known")
    return form


def model_folder(name: str, revision: str | None = None) -> Path:
    """Return the local folder of a model, fetched from the hub where it is a hub name."""
    if name.startswith((".", "/", "~")) and not Path(name).is_dir():
        raise FileNotFoundError(f"there is no folder {name}")
    return Path(name) if Path(name).is_dir() else hub_folder(name, revision)


def hub_folder(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download  # late: it imports much

    patterns = sorted({pattern for form in FORMS for pattern in form.FILES})
    return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))


def digest_of_model(folder: Path) -> str:
    """Hash all the files of a model that decide what it says."""
    return form_of(folder).digest_of_model(folder)


def judged_model(source: str, classify: Classify) -> Model:
    """Find a source's model and all that can be found wrong with it. Raises BadInput."""
    where = f"classify.model: {classify.model}"
    if all(missing := [form.missing_libraries() for form in FORMS]):  # before anything is fetched
        raise bad_input(source, f"{where}: {missing[0]}")
    try:
        folder = model_folder(classify.model, classify.revision)
        labels, digest = form_of(folder).judge(folder), digest_of_model(folder)
    except tuple(form.Fault for form in FORMS) as error:
        raise bad_input(source, f"{where}: {error}") from error
    except Exception as error:  # transformers, torch and the hub raise whatever they like
        raise bad_input(source, f"{where} cannot be loaded: {first_line(error)}; {EXPECTED}") from error
    is_local = Path(classify.model).is_dir()
    revision = None if is_local else folder.name  # the hub's cache names a snapshot by its commit
    return Model(name=classify.model, revision=revision, digest=digest, labels=labels)


def load_model(model: Model, max_tokens: int, device: str | None = None) -> Answers:
    """Load a model once for all the shards that a worker classifies, in whichever thread.

    Raises BadInput where its files are not those that were digested.
    """
    with LOADING:  # by itself the cache lets two threads that miss at once load it twice
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
    expect_digest(name, folder, digest)  # nobody has written to it meanwhile
    return answers


def expect_digest(name: str, folder: Path, digest: str) -> None:
    if digest_of_model(folder) != digest:
        raise BadInput(f"classify.model: {name}: its files have changed since the build began; build again")
