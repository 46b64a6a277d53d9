"""The permanent numbers of a corpus's sources and files.

The register is a folder of entries; each entry holds the numbers that one build added. An entry never replaces
another: if two builds number files at the same time, the later build starts again.
"""

from collections.abc import Sequence

from pydantic import Field

from zyda_flows.tasks.errors import Damaged, Denied, Unavailable, bad_input
from zyda_flows.tasks.ids import MAX_FILES, MAX_SOURCES, split
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, seal, unseal

REGISTER = f"{WORK}/register"


class Register(Record):
    """The numbers of a corpus's sources and files, including removed ones. entries: the number of entries read."""

    sources: dict[str, int] = {}
    files: dict[str, tuple[InputFile, ...]] = {}
    entries: int = Field(0, exclude=True)

    def __add__(self, entry: "Register") -> "Register":
        files = {name: self.files.get(name, ()) + new_files for name, new_files in entry.files.items()}
        return Register(
            sources=self.sources | entry.sources, files=self.files | files, entries=self.entries + 1
        )


def load_register(folder: Folder) -> Register:
    """Read all entries of a corpus's register.

    Raises Denied if an entry is missing or damaged, because its numbers are stored nowhere else.
    """
    paths = folder.files(REGISTER)
    for expected, path in zip(map(entry_path, range(len(paths))), paths, strict=True):
        if path != expected:
            raise lost_entry(folder, int(expected.rpartition("/")[2].partition(".")[0]))
    register = Register()
    try:
        for path in paths:
            entry = unseal(folder.read(path), Register, path)
            check_follows(register, entry, path)
            register += entry
    except Damaged as error:
        raise Denied(
            f"{folder.url}/{error}. It holds the numbers of files, which are part of document ids, and cannot be "
            "rebuilt: restore it from a copy, or delete this corpus's folder and build again"
        ) from error
    return register


def check_follows(before: Register, entry: Register, path: str) -> None:
    """Raise Damaged if the numbers of an entry do not continue the numbers before it."""
    sources = sorted(entry.sources.values())
    are_next = sources == [len(before.sources) + i for i in range(len(sources))]
    for name, files in entry.files.items():
        first = len(before.files.get(name, ()))
        are_next &= name in (before.sources | entry.sources)
        are_next &= [file.number for file in files] == list(range(first, first + len(files)))
    if not are_next:
        raise Damaged(f"{path} is cut or changed: its numbers do not continue the numbers before it", path)


def lost_entry(folder: Folder, number: int) -> Denied:
    return Denied(
        f"{folder.url}: {entry_path(number)} is missing from the register of numbers, and a number must not be "
        "assigned twice; restore that file, or build under another name"
    )


def entry_path(number: int) -> str:
    return f"{REGISTER}/{number:06d}.json"  # padded with zeros, so that names sort like numbers


def extend_register(folder: Folder, before: Register, after: Register) -> None:
    """Write the numbers that were added since the register was read, if any.

    Raises Unavailable if another build has written to the register in the meantime.
    """
    new_files = {name: files[len(before.files.get(name, ())) :] for name, files in after.files.items()}
    entry = Register(
        sources={name: n for name, n in after.sources.items() if name not in before.sources},
        files={name: files for name, files in new_files.items() if files},
    )
    if not entry.sources and not entry.files:
        return
    path = entry_path(before.entries)
    if not folder.create(path, seal(entry, path)):
        raise Unavailable(f"{folder.url}: another build of this corpus has numbered files at the same time")


def number_sources(register: Register, names: Sequence[str]) -> Register:
    """Assign the next number to each new source. Raises BadInput if no number is left."""
    numbers = dict(register.sources)
    for name in names:
        if name not in numbers:
            numbers[name] = max(numbers.values(), default=-1) + 1
            if numbers[name] >= MAX_SOURCES:
                had = f"this corpus has had {MAX_SOURCES} sources"
                raise bad_input(name, f"{had}; start one with a new name")
    return register.model_copy(update={"sources": numbers})


def file_and_row_of(folder: Folder, source: str, doc_id: int) -> tuple[str, int]:
    """Return the URL of a document's file, empty if unknown, and the document's row in the file."""
    _, number, row = split(doc_id)
    files = load_register(folder).files.get(source, ())
    return next((file.url for file in files if file.number == number), ""), row


def known_files(register: Register, source: str) -> dict[tuple[str, str, str], InputFile]:
    return {file.key: file for file in register.files.get(source, ())}


def number_files(register: Register, source: str, inspected: Sequence[InputFile]) -> Register:
    """Assign the next numbers to the new files of a source, in the given order."""
    before = register.files.get(source, ())
    first = max((file.number for file in before), default=-1) + 1
    if first + len(inspected) > MAX_FILES:
        raise bad_input(source, f"more than {MAX_FILES:,} files")
    numbered = tuple(
        file.model_copy(update={"number": first + i, "location": None}) for i, file in enumerate(inspected)
    )
    files = {**register.files, source: before + numbered}
    return register.model_copy(update={"files": files})
