"""Find finished artifacts and stages by their records, and write the manifest that marks a stage as finished."""

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.artifacts import (
    WORK,
    Artifact,
    ArtifactRecord,
    Manifest,
    Receipt,
    artifacts_in,
    manifest_path,
    receipt_of,
)
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Sealed, read_record, write_record


def finished_record(folder: Folder, path: str, kind: type[Sealed]) -> Sealed | None:
    """Return the record at a path if the record and all artifacts that it names exist with their full sizes.

    Otherwise return None, which means that the work must be repeated, and log a warning about damage.
    """
    try:
        record = read_record(folder, path, kind)
    except Damaged as error:
        warn(f"{error}; it is rebuilt")
        return None
    for artifact in artifacts_in(record):
        if folder.size_of(artifact.path) != artifact.size:
            if artifact.path.startswith(
                f"{WORK}/"
            ):  # otherwise a later build may have replaced a published file
                warn(f"artifact missing or truncated, rebuilding: {folder.url}/{artifact.path}")
            return None
    return record


def finished_artifact(folder: Folder, path: str) -> Artifact | None:
    """Return the record of an artifact, or None if it is not finished."""
    record = finished_record(folder, f"{path}.json", ArtifactRecord)
    return record.artifact if record else None


def finished_stage(folder: Folder, stage: str, source: str | None, key: str) -> Receipt | None:
    """Return the receipt of a stage that is already finished, or None."""
    path = manifest_path(stage, source, key)
    try:
        manifest = read_record(folder, path, Manifest)
    except Damaged as error:
        warn(f"{error}; it is rebuilt")
        return None
    return receipt_of(manifest, key, path) if manifest else None


def finish_stage(folder: Folder, manifest: Manifest, key: str) -> Receipt:
    """Write the manifest, which marks the stage as finished, and return its receipt."""
    path = manifest_path(manifest.stage, manifest.source, key)
    write_record(folder, path, manifest)
    return receipt_of(manifest, key, path)
