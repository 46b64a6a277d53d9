"""List the files of a source by the patterns and lists of its recipe, without reading the files."""

import io
import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from zyda_flows.tasks.errors import BadInput, Denied, Unavailable, ZydaError, bad_input, first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.file_lists import FilesFrom, selected
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.values import has_commits
from zyda_flows.tasks.sources.compression import whole_content
from zyda_flows.tasks.sources.decoders import COMPRESSIONS, DAMAGED_MEMBER, compression_in
from zyda_flows.tasks.sources.file_systems import file_system_of, is_temporary, status_of_missing, version_of
from zyda_flows.tasks.sources.hub import as_in_pattern, at_commit, commit_of
from zyda_flows.tasks.sources.input_files import InputFile, Location
from zyda_flows.tasks.sources.streams import open_input
from zyda_flows.tasks.storage.failures import unavailable
from zyda_flows.tasks.storage.stamps import is_utf8
from zyda_flows.tasks.storage.stores import Stream, ask_again, explain_errors

WILDCARDS = "*?["
CONCURRENT_REQUESTS = 16  # for the files of a list
INVALID_LIST: tuple[type[Exception], ...] = (*DAMAGED_MEMBER, UnicodeDecodeError)


def list_files(source: Source) -> list[InputFile]:
    """List a source's files, ordered by URL. Raises BadInput if a pattern has no file or all are empty."""
    files = {file.url: file for matching in list_by_pattern(source).values() for file in matching}
    if not any(file.size for file in files.values()):
        raise bad_input(source.name, "each of its files has 0 bytes", file=next(iter(files)))
    return [files[url] for url in sorted(files)]


def list_by_pattern(source: Source) -> dict[str, list[InputFile]]:
    """List the files of each pattern of a source. Raises BadInput if a pattern matches no file."""
    searches = {
        pattern: partial(files_matching, source.name, pattern, source.revision) for pattern in source.files
    }
    searches |= {file_list.pattern: partial(files_in_list, source, file_list) for file_list in source.lists}
    files = dict[str, list[InputFile]]()
    for pattern, search in searches.items():
        try:
            matching = ask_again(search, waits=())
        except BadInput:
            raise
        except (Denied, ValueError) as error:  # fsspec raises ValueError for invalid patterns and protocols
            raise bad_input(source.name, f"{pattern} cannot be listed: {first_line(error)}") from error
        except Unavailable as error:
            raise Unavailable(f"source {source.name}: {pattern} cannot be listed: {error}") from error
        if not matching:
            raise bad_input(source.name, f"no file matches {pattern}{no_match_hint(pattern)}")
        files[pattern] = matching
    return files


def files_in_list(source: Source, file_list: FilesFrom) -> list[InputFile]:
    """Return the files that a list names and its `select` chooses. Raises BadInput if a file is missing."""
    lines = map(str.strip, read_list(source.name, file_list).splitlines())
    paths = [*dict.fromkeys(line for line in lines if line and not line.startswith("#"))]
    chosen = selected(paths, file_list.select)
    if not chosen:
        fault = (
            f"{file_list.url} names {len(paths):,} files, of which `select: {file_list.select}` chooses none"
        )
        raise bad_input(source.name, fault)
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        return [*pool.map(partial(listed_file, source, file_list), chosen)]


def listed_file(source: Source, file_list: FilesFrom, path: str) -> InputFile:
    """Return a file that a list names. Raises BadInput if it is missing."""
    url = path
    if not ("://" in path or os.path.isabs(path)):
        url = (file_list.prefix or f"{file_list.url.rpartition('/')[0]}/") + path
    files = ask_again(partial(files_matching, source.name, url, source.revision))
    if len(files) != 1:
        raise bad_input(source.name, f"{url} is missing; it is in the list {file_list.url}")
    return files[0].model_copy(update={"name": path})


def read_list(source: str, file_list: FilesFrom) -> str:
    """Read a list of files. Raises BadInput if it is missing or not a text."""
    files = files_matching(source, file_list.url)
    if len(files) != 1:
        raise bad_input(source, f"there is no list of files at {file_list.url}")
    content = read_listed_file(source, files[0], limits().file_list_bytes)
    try:
        stream = Stream(file_list.url, io.BytesIO(content))
        return whole_content(stream, compression_in(content), limits().file_list_bytes).decode("utf-8-sig")
    except INVALID_LIST as error:
        raise bad_input(source, f"no list of files: {first_line(error)}", file=file_list.url) from error


def read_listed_file(source: str, file: InputFile, most: int | None = None) -> bytes:
    """Read a whole file in the version that was listed.

    most: bytes that the file may have; by default, the limit of lists and evaluation sets.
    Raises BadInput if the file is missing, changed or too large.
    """
    most = limits().list_bytes if most is None else most
    if file.size > most:
        raise bad_input(source, f"it has {file.size:,} bytes, expected at most {most:,}", file=file.url)
    location = file.location or Location(url="", version=file.version)
    with open_input(source, file.url, file.size, location.version, location.url, at_random=False) as stream:
        content = b"".join(iter(lambda: stream.read(1 << 20), b""))
        stream.expect_unchanged()
    return content


def files_matching(source: str, pattern: str, revision: str | None = None) -> list[InputFile]:
    """List the current files of a pattern, following links. A file with the exact name takes precedence.

    Files of a hub repository are listed at the commit that the revision names now.
    """
    commit = ""
    with explain_errors(pattern):
        if has_commits(pattern):
            commit = commit_of(pattern, revision)
        fs, path = file_system_of(at_commit(pattern, commit) if commit else pattern)
        fs.invalidate_cache()
        infos = {
            str(file["name"]): file
            for info in pattern_infos(fs, path)
            for file in files_in_folder(fs, info, path)
        }
    files = [to_input_file(source, fs, info, path_below_pattern(path, name)) for name, info in infos.items()]
    if not commit:
        return files
    digests = [(info.get("lfs") or {}).get("sha256", "") for info in infos.values()]
    return [read_at_commit(file, pattern, commit, sha) for file, sha in zip(files, digests, strict=True)]


def read_at_commit(file: InputFile, pattern: str, commit: str, sha256: str) -> InputFile:
    """Return a file that was listed at a commit, with the URL of its pattern and the location at that commit."""
    location = Location(url=file.url, commit=commit, sha256=sha256)
    return file.model_copy(update={"url": as_in_pattern(file.url, pattern), "location": location})


def no_match_hint(pattern: str) -> str:
    """Return the end of the error for a pattern that matches no file: the reason, if it can be found."""
    status = None
    if not any(mark in pattern for mark in WILDCARDS):
        with suppress(ZydaError, ValueError), explain_errors(pattern):
            fs, path = file_system_of(pattern)
            status = status_of_missing(fs, path)
    return f": its server answered with status {status}" if status else folder_hint(pattern)


def folder_hint(pattern: str) -> str:
    """Return a hint to add `/**` if a pattern without matches is the path of a folder, else an empty text."""
    if not any(mark in pattern for mark in WILDCARDS):
        with suppress(ZydaError, ValueError), explain_errors(pattern):
            fs, path = file_system_of(pattern)
            if fs.isdir(path):
                return f", which is a folder: write {pattern.rstrip('/')}/** for all files below it"
    return ""


def pattern_infos(fs: Any, path: str) -> list[dict[str, Any]]:
    """Return the file system's entries for a pattern."""
    exact = (
        None if "*" in path else file_info(fs, path)
    )  # other wildcards may be part of a name or an address
    if exact is not None:
        return [exact]
    infos = fs.glob(path, detail=True).values() if any(mark in path for mark in WILDCARDS) else ()
    return [info if info.get("size") is not None else file_info(fs, info["name"]) or info for info in infos]


def files_in_folder(fs: Any, info: dict[str, Any], pattern: str) -> list[dict[str, Any]]:
    """Return the file itself, or, for a folder such as Spark's `x.parquet`, its files with the same ending.

    Files whose names begin with a dot or an underscore are skipped: programs mark folders with them.
    Raises ValueError if the pattern ends with the ending and the folder has only files with other endings.
    """
    if info["type"] != "directory":
        return [info]
    folder = str(info["name"]).rstrip("/")
    ending = os.path.splitext(folder)[1].lower()
    if not ending:
        return []
    endings = tuple(f"{ending}{compression}" for compression in ("", *COMPRESSIONS))
    entries = fs.find(folder, detail=True)
    data = {path: entry for path, entry in entries.items() if not re.search(r"/[._]", path[len(folder) :])}
    files = [data[path] for path in sorted(data) if path.lower().endswith(endings)]
    if data and not files and pattern.lower().endswith(ending):
        raise ValueError(f"{folder} is a folder in which no file ends with {ending}; name its files")
    return files


def file_info(fs: Any, path: str) -> dict[str, Any] | None:
    """Return the file system's entry for a file, or None if it is missing.

    Raises Unavailable if a failing server caused the "not found".
    """
    try:
        return dict(fs.info(path))
    except FileNotFoundError as error:
        if is_temporary(error):
            raise unavailable(f"{path}: {error.__cause__}", error) from error
        return None


def path_below_pattern(pattern: str, path: str) -> str:
    """Return a file's path below the last folder of the pattern without wildcards; its name, if there are none."""
    steps = pattern.split("/")
    fixed = next(
        (i for i, step in enumerate(steps) if any(mark in step for mark in WILDCARDS)), len(steps) - 1
    )
    return "/".join(path.split("/")[fixed:]) or path.rpartition("/")[2]


def to_input_file(source: str, fs: Any, info: dict[str, Any], name: str) -> InputFile:
    """Convert a file system's entry. Raises BadInput if it cannot be read as a file."""
    is_local = isinstance(fs, LocalFileSystem)
    url = str(info["name"] if is_local else fs.unstrip_protocol(info["name"]))
    if not is_utf8(url):
        raise bad_input(source, "its name is not UTF-8; rename it", file=url)
    if fault := unreadable_reason(info):
        raise bad_input(source, fault, file=url)
    return InputFile(url=url, name=name, version=version_of(info), size=info["size"])


def unreadable_reason(info: dict[str, Any]) -> str | None:
    """Return why a listed entry cannot be read as a file, or None if it can."""
    reasons = {
        "broken": f"a link to {info.get('destination')}, which does not exist",
        "loop": f"a link to {info.get('destination')}, which leads back to itself",
        "other": "neither a file nor a folder",
    }
    if info["type"] in reasons:
        return reasons[info["type"]]
    if info.get("size") is None:
        return "its server does not state its size (no Content-Length), so its end cannot be checked"
    return None
