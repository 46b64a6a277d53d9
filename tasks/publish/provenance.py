"""The inputs of a corpus: the files of its sources, its tokenizer, its models, and the software."""

import os.path
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version

import pyarrow as pa

from zyda_flows.tasks.accounts.published import Origin
from zyda_flows.tasks.ingest.source_plan import SourcePlan
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judges import QUALITY
from zyda_flows.tasks.sources.input_files import InputFile, load_listing

SOURCES = pa.schema(
    [
        ("source", pa.string()),
        ("source_number", pa.uint16()),
        ("file_number", pa.uint32()),
        ("file", pa.string()),
        ("version", pa.string()),
        ("size", pa.uint64()),
        ("commit", pa.string()),
        ("documents", pa.int64()),
    ]
)


@cache
def software() -> str:
    """Return the name and version of this software."""
    return f"zyda-flows {version('zyda-flows')}"


def tokenizer_of(recipe: Recipe, inputs: Sequence[SourcePlan]) -> dict[str, str]:
    """Return the name and digest of the tokenizer, and its handling of special tokens in texts."""
    return {
        "name": str(recipe.as_written["tokenizer"]),
        "digest": inputs[0].parameters.tokenizer,
        "special_tokens": recipe.special_tokens,
    }


def origins(recipe: Recipe, inputs: Sequence[SourcePlan]) -> tuple[Origin, ...]:
    """Return for each source the number and size of its files, and the models that judged its documents."""
    return tuple(origin(recipe, prepared) for prepared in inputs)


def origin(recipe: Recipe, prepared: SourcePlan) -> Origin:
    files = load_listing(recipe.folder, prepared.listing)
    return Origin(
        source=prepared.source,
        number=prepared.number,
        files=len(files),
        bytes=sum(file.size for file in files),
        models=models_as_named(recipe, prepared),
    )


def models_as_named(recipe: Recipe, prepared: SourcePlan) -> tuple[dict[str, str], ...]:
    """Return the judge, name, digest and revision of each model that judged a source, in order."""
    if not prepared.models:
        return ()
    written = recipe.as_written
    source = next(source for source in written["sources"] if source["name"] == prepared.source)
    own = source.get("judges")
    judges = written.get("judges", []) if own is None else own
    names = {judge["name"]: judge["model"] for judge in judges}
    if source.get("classify"):
        names[QUALITY] = source["classify"]["model"]
    return tuple(
        {"judge": model.judge, "name": names[model.judge], "digest": model.digest}
        | ({"revision": model.revision} if model.revision else {})
        for model in prepared.models
    )


def source_files(
    recipe: Recipe, inputs: Sequence[SourcePlan], documents: Mapping[str, Mapping[int, int]]
) -> pa.Table:
    """List the files of all sources with their versions and their numbers in doc_ids: SOURCES.

    documents: the number of published documents, by source and number of the file.
    """
    rows = list[dict[str, object]]()
    for prepared in inputs:
        published = documents[prepared.source]
        files = load_listing(recipe.folder, prepared.listing)
        rows += [
            {
                "source": prepared.source, "source_number": prepared.number, "file_number": file.number,
                "file": name, "version": file.version, "size": file.size,
                "commit": (file.location.commit if file.location else "") or None,
                "documents": published.get(file.number, 0),
            }
            for file, name in zip(files, shown_names(files), strict=True)
        ]  # fmt: skip
    return pa.Table.from_pylist(rows, SOURCES)


def shown_names(files: Sequence[InputFile]) -> list[str]:
    """Return the published name of each file: its URL, or its path below the common folder of all local files."""
    local = [file.url for file in files if "://" not in file.url]
    top = os.path.commonpath([os.path.dirname(path) for path in local]) if local else ""
    return [file.url if "://" in file.url else os.path.relpath(file.url, top) for file in files]
