"""Every field of a job is part of its key, unless its type has a NotInKey with the reason."""

import importlib
import pkgutil
import types
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import isabstract
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel

import zyda_flows.tasks
from zyda_flows.tasks.quality.document_filter import DocumentFilter
from zyda_flows.tasks.stage.jobs import ArtifactJob, Job
from zyda_flows.tasks.stage.keys import NotInKey, key_content, mark_of
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder


def below(kind):
    return {kind}.union(*map(below, kind.__subclasses__()))


def job_classes():
    for module in pkgutil.walk_packages(zyda_flows.tasks.__path__, "zyda_flows.tasks."):
        if ".gpu" not in module.name:
            importlib.import_module(module.name)
    classes = [
        kind for kind in below(Job) if kind.__module__.startswith("zyda_flows.") and not isabstract(kind)
    ]
    return sorted(classes, key=lambda kind: (kind.__module__, kind.__name__))


def sample(kind: Any, number: int) -> Any:
    """Return a value of a type. Different numbers return different values."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated or isinstance(kind, TypeVar):
        return sample(arguments[0], number)
    if origin in (Union, types.UnionType):
        return sample(next(argument for argument in arguments if argument is not type(None)), number)
    if origin is Literal:
        return arguments[number % len(arguments)]
    if origin is tuple:
        return tuple(sample(argument, number) for argument in arguments if argument is not Ellipsis)
    if origin is dict:
        return {sample(arguments[0], number): sample(arguments[1], number)}
    if origin is np.ndarray:
        return np.array([number], np.uint64)
    if kind in (str, int, float, bool, Any):
        return str(number) if kind in (str, Any) else kind(number)
    return sample_of_class(kind, number)


def sample_of_class(kind: Any, number: int) -> Any:
    if kind is pa.Schema:
        return pa.schema([(f"c{number}", pa.int8())])
    if kind is pa.DataType:
        return [pa.int8(), pa.int16()][number]
    if kind is Folder:
        return Folder(f"/{number}")
    if kind is Artifact:
        return artifact(str(number))
    if kind is DocumentFilter:
        return DocumentFilter("filter", number, len, {})
    if isabstract(kind):
        return None
    if issubclass(kind, BaseModel):
        return kind.model_construct(
            **{name: sample(field.annotation, number) for name, field in kind.model_fields.items()}
        )
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", ())
    hints = get_type_hints(kind)
    return kind(**{name: sample(hints[name], number) for name in names}) if names else None


def artifact(digest, path="a.parquet"):
    return Artifact.made(name="a", path=path, digest=digest, rows=1, size=1, footer=1, footer_digest="")


JOBS = job_classes()


def test_jobs_are_detected():
    assert len(JOBS) > 40


@pytest.mark.parametrize("kind", JOBS, ids=lambda kind: kind.__name__)
def test_each_field_that_is_not_marked_changes_the_key(kind, monkeypatch):
    monkeypatch.setattr(kind, "also_in_key", None)
    job, hints = sample_of_class(kind, 0), get_type_hints(kind)
    for field in fields(kind):
        if mark_of(field) is None:
            assert replace(job, **{field.name: sample(hints[field.name], 1)}).key != job.key, field.name
    assert all(mark.reason for field in fields(kind) if (mark := mark_of(field)))


@dataclass(frozen=True)
class Counted(ArtifactJob):
    stage, version, name = "counted", 1, "all"

    shard: Artifact
    place: Annotated[str, NotInKey("where it lies")] = ""

    def make(self):
        raise NotImplementedError


@dataclass(frozen=True)
class CountedByWords(Counted):
    words: int = 0


def test_field_of_a_subclass_is_in_the_key():
    shard = artifact("1")
    first = CountedByWords(Folder("/a"), None, shard)
    assert first.key == CountedByWords(Folder("/b"), "source", shard, place="elsewhere").key
    assert first.key != CountedByWords(Folder("/a"), None, shard, words=1).key
    assert first.key != Counted(Folder("/a"), None, shard).key
    assert first.key != CountedByWords(Folder("/a"), None, artifact("2")).key
    moved = artifact("1", "elsewhere")
    assert first.key == CountedByWords(Folder("/a"), None, moved).key


def test_value_of_an_unknown_type_cannot_be_in_a_key():
    with pytest.raises(
        TypeError, match="a value of type set cannot be part of a key; mark its field with NotInKey"
    ):
        key_content({1})
