"""Push a published corpus to a dataset repository of the Hugging Face hub, so that all files appear at once.

Missing files are sent to a pull request, some files with each commit. When all files of the pull request have the
digests of the published files, it is merged; until then the main branch does not change. An interrupted push leaves
the pull request open, and the next push continues with it.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from zyda_flows.tasks.accounts.published import MANIFEST, REPAIR, File
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import Damaged, Denied, Unavailable
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.publish.hub_limits import excess
from zyda_flows.tasks.publish.hub_repository import Repository, first_sentence, repository_of
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.words import counted

MOST_FILES, MOST_BYTES = 64, 16 << 30  # of a commit
ROUNDS = 3  # of sending files that did not arrive
GIT_ATTRIBUTES = ".gitattributes"  # written by the hub
TITLE = "zyda-flows: {corpus}"


@dataclass
class Push:
    """A push of the present version of a corpus.

    files: the published files by path. to_send, to_delete: files to send and to delete. pushed: paths that a push
    has written. others: files that no push has written, which are kept.
    """

    repository: Repository
    corpus: PublishedCorpus
    files: dict[str, File]
    revision: str = "main"
    number: int | None = None
    to_send: list[File] = field(default_factory=list)
    to_delete: list[str] = field(default_factory=list)
    pushed: set[str] = field(default_factory=set)
    others: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes to be sent."""
        return sum(file.size for file in self.to_send)

    @property
    def whole_size(self) -> int:
        """The bytes of the corpus."""
        return sum(file.size for file in self.files.values())

    def sentences(self) -> Iterator[str]:
        """Yield sentences that describe the push."""
        if not (self.to_send or self.to_delete) and self.number is not None:
            yield "all files are in the pull request of an earlier push; it is merged now"
        elif not (self.to_send or self.to_delete):
            yield f"nothing to send: {self.repository.url} has the corpus as it is published"
        else:
            yield (
                f"{counted(len(self.to_send), 'file')} of {len(self.files):,} to send, {self.size:,} bytes; "
                f"{counted(len(self.to_delete), 'file')} to delete"
            )
        if self.others:
            yield (
                f"{counted(len(self.others), 'file')} that no push has written are kept: {self.others[0]}"
                + (", ..." if len(self.others) > 1 else "")
            )
        yield from excess(Counter(path.rpartition("/")[0] for path in self.files))
        if not self.corpus.manifest.recipe.get("license"):
            yield "the recipe has no `license`, so the card has none"

    def begin(self) -> None:
        """Compare the repository with the corpus, and find or open the pull request if they differ."""
        self.pushed = pushed_before(self.repository)
        main = self.repository.tree("main")
        self.compare(main)
        if self.to_send or self.to_delete:
            self.revision, self.number = self.repository.pull_request(
                TITLE.format(corpus=self.corpus.manifest.corpus)
            )
            waiting = self.repository.tree(self.revision)
            self.pushed |= waiting.keys() - main.keys()  # of an interrupted push
            known = {*self.pushed, *self.files, GIT_ATTRIBUTES}
            if changed := [path for path in waiting if path not in known and waiting[path] != main[path]]:
                raise Denied(
                    f"{self.repository.page}/discussions/{self.number}: this pull request of a push changes "
                    f"{changed[0]}, which no push does; close it, and push again"
                )
            self.compare(waiting)

    def compare(self, tree: dict[str, tuple[int, str]]) -> None:
        """List the files of a revision that differ from the published files."""
        self.to_send = [
            file
            for file in self.files.values()
            if not is_as_published(self.corpus.folder, file, tree.get(file.path))
        ]
        self.to_delete = sorted(path for path in tree if path in self.pushed and path not in self.files)
        known = {*self.pushed, *self.files, GIT_ATTRIBUTES}
        self.others = sorted(path for path in tree if path not in known)

    def send(self, tell: Callable[[int], object]) -> None:
        """Send the files to the pull request until all have arrived. tell: called with the bytes of each commit.

        Raises Unavailable if a file does not arrive, Denied if another version of the corpus was published
        meanwhile.
        """
        for _ in range(ROUNDS):
            for batch in batches(self.to_send):
                self.expect_unchanged()
                self.expect_whole(batch)
                with local_files(self.corpus.folder, batch) as paths:
                    message = f"{len(batch):,} files of {self.corpus.manifest.corpus}"
                    self.repository.commit(partial(additions, batch, paths), message, self.revision)
                tell(sum(file.size for file in batch))
            if self.to_delete:
                message = (
                    f"{len(self.to_delete):,} files that {self.corpus.manifest.corpus} does not have any more"
                )
                self.repository.commit(partial(deletions, self.to_delete), message, self.revision)
            self.compare(self.repository.tree(self.revision))
            if not (self.to_send or self.to_delete):
                return
        path = [*(file.path for file in self.to_send), *self.to_delete][0]
        raise Unavailable(
            f"{self.repository.url}: {path} was sent {ROUNDS} times, and still differs from the published file; "
            "nothing of it is visible; push again later"
        )

    def finish(self) -> None:
        """Merge the pull request. Raises Denied if another version of the corpus was published meanwhile."""
        self.expect_unchanged()
        if self.number is not None:
            self.repository.merge(self.number)

    def expect_whole(self, files: Sequence[File]) -> None:
        """Raise Denied if published files are damaged."""
        for file in files:
            if fault := self.corpus.folder.difference(file.path, file.size, file.sha256):
                self.expect_unchanged()  # otherwise another version has replaced the file
                raise Denied(f"{self.corpus.url}/{file.path} {fault}; {REPAIR}")

    def expect_unchanged(self) -> None:
        if not self.corpus.is_current():
            raise Denied(
                f"{self.corpus.root.url}: another version of this corpus was published during the push; nothing of "
                "this push is visible on the hub; push again: files that are the same are not sent again"
            )


def push_of(recipe: Recipe, name: str, *, private: bool = False) -> Push:
    """Prepare a push of the present version of a corpus. Raises BadInput, Denied, Unavailable."""
    repository = repository_of(name)
    corpus = PublishedCorpus.of(recipe)
    files = [*corpus.files(), *corpus.manifest.named]
    manifest = File(path=MANIFEST, sha256=corpus.digest, size=corpus.folder.size_of(MANIFEST) or 0)
    repository.prepare(private=private)
    push = Push(repository, corpus, {file.path: file for file in (*files, manifest)})
    push.begin()
    return push


def pushed_before(repository: Repository) -> set[str]:
    """Return the paths of earlier pushes to a repository, by its manifest; none if it has no manifest."""
    commit = repository.request(lambda: repository.api.repo_info(**repository.identity).sha)
    folder = Folder(f"{repository.url}@{commit}")  # a commit, because the client caches the files of a branch
    try:
        content = folder.read_if_there(MANIFEST)
        if content is None:
            return set()
        corpus = PublishedCorpus.from_manifest(folder, content)
        paths = {*(file.path for file in corpus.manifest.named), *corpus.paths()}
    except (Damaged, Denied) as error:  # the manifest is not of a corpus
        warn(
            f"{repository.url}/{MANIFEST} is not of a corpus; nothing is deleted there ({first_sentence(error)})"
        )
        return set()
    return {MANIFEST, *paths}


def is_as_published(folder: Folder, file: File, entry: tuple[int, str] | None) -> bool:
    """Return whether the entry of a repository's tree is of a published file, by its SHA-256 or git's digest."""
    if entry is None or entry[0] != file.size:
        return False
    digest = entry[1]
    if len(digest) == len(file.sha256):
        return digest == file.sha256
    content = folder.read(file.path)
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == digest


def batches(files: Sequence[File]) -> Iterator[list[File]]:
    """Yield the files of each commit; the manifest is the last file."""
    batch, size = list[File](), 0
    for file in sorted(files, key=lambda file: (file.path == MANIFEST, file.path)):
        if batch and (len(batch) == MOST_FILES or size + file.size > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


@contextmanager
def local_files(folder: Folder, files: Sequence[File]) -> Iterator[dict[str, str]]:
    """Yield the paths of published files on a local disk; files of a store are copied to a scratch folder."""
    if folder.is_local:
        yield {file.path: folder.path(file.path) for file in files}
        return
    with TemporaryDirectory(prefix="zyda-push-") as scratch:
        paths = dict[str, str]()
        for number, file in enumerate(files):
            paths[file.path] = str(Path(scratch, str(number)))
            with folder.open(file.path) as stream, Path(paths[file.path]).open("wb") as out:
                for block in iter(lambda: stream.read(8 << 20), b""):
                    out.write(block)
        yield paths


def additions(files: Sequence[File], paths: dict[str, str]) -> list[Any]:
    from huggingface_hub import CommitOperationAdd  # late

    return [CommitOperationAdd(path_in_repo=file.path, path_or_fileobj=paths[file.path]) for file in files]


def deletions(paths: Sequence[str]) -> list[Any]:
    from huggingface_hub import CommitOperationDelete  # late

    return [CommitOperationDelete(path_in_repo=path, is_folder=False) for path in paths]
