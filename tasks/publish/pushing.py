"""Push: a published corpus to a dataset repository of the Hugging Face hub, visible all at once.

What is not there yet goes to a pull request of its own, some files with each commit. When all files there have the
digests of the published ones, the pull request is merged: until then the main branch is as it was. A push that was
interrupted leaves the pull request open, and the next one goes on with it.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from zyda_flows.tasks.accounts.published import MANIFEST, REPAIR, File
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, Damaged, Denied, Unavailable, ZydaError
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.values import HUB
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stores import ask_again, explain_errors
from zyda_flows.tasks.words import counted

DATASETS = f"{HUB}datasets/"
MOST_FILES, MOST_BYTES = 64, 16 << 30  # of a commit
ROUNDS = 3  # in which what does not arrive is sent
GIT_ATTRIBUTES = ".gitattributes"  # which the hub keeps by itself
TITLE = "zyda-flows: {corpus}"
LOGIN = "no token for the hub: set HF_TOKEN, or run `hf auth login`; it must be one that may write"

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Repository:
    """A dataset repository of the hub, by its name; its methods raise Denied and Unavailable."""

    name: str

    @property
    def url(self) -> str:
        return f"{DATASETS}{self.name}"

    @property
    def page(self) -> str:
        return f"{self.api.endpoint}/datasets/{self.name}"

    @property
    def api(self) -> Any:
        from huggingface_hub import HfApi  # late: a third of a second

        return HfApi()

    @property
    def its(self) -> dict[str, str]:
        return {"repo_id": self.name, "repo_type": "dataset"}

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask the hub, again where it did not answer, and after as long as it says where it limits requests."""
        from huggingface_hub.errors import HfHubHTTPError  # late

        def once() -> Answer:
            with explain_errors(self.url):
                try:
                    return question()
                except HfHubHTTPError as error:
                    if error.response is not None and error.response.status_code in (401, 403):
                        raise Denied(
                            f"{self.url}: the token may not write there: {first_sentence(error)}"
                        ) from error
                    raise
                except RuntimeError as error:  # of a thread of the client's, which uploads a file
                    raise error.__cause__ or error from None

        return ask_again(once)

    def prepare(self, *, private: bool) -> None:
        """Make the repository, if it is not there, and see whether it may be written to."""
        from huggingface_hub import get_token  # late

        if not (get_token() or "").isascii() or not get_token():
            raise Denied(f"{self.url}: {LOGIN}")
        self.ask(lambda: self.api.create_repo(**self.its, private=private or None, exist_ok=True))
        self.ask(lambda: self.api.auth_check(**self.its, write=True))

    def tree(self, revision: str) -> dict[str, tuple[int, str]]:
        """List the files of a revision by path, each with its size and its SHA-256, or else the digest of git's."""

        def listed() -> dict[str, tuple[int, str]]:
            entries = self.api.list_repo_tree(**self.its, revision=revision, recursive=True)
            files = (entry for entry in entries if hasattr(entry, "blob_id"))
            return {one.path: (one.size, one.lfs.sha256 if one.lfs else one.blob_id) for one in files}

        return self.ask(listed)

    def pull_request(self, title: str) -> tuple[str, int]:
        """Return the open pull request of a title by the token's owner, or a new one: its revision and its number.

        One by somebody else would bring along whatever that person has put there.
        """

        def find() -> int | None:
            owner = self.api.whoami()["name"]
            every = self.api.get_repo_discussions(**self.its, discussion_type="pull_request", author=owner)
            return next(
                (
                    one.num
                    for one in every
                    if (one.title, one.author) == (title, owner) and one.status in ("open", "draft")
                ),
                None,
            )

        number = self.ask(find)
        if number is None:
            number = self.ask(lambda: self.api.create_pull_request(**self.its, title=title).num)
        return f"refs/pr/{number}", number

    def commit(self, operations: Callable[[], list[Any]], message: str, revision: str) -> None:
        self.ask(
            lambda: self.api.create_commit(
                **self.its, operations=operations(), commit_message=message, revision=revision
            )
        )

    def merge(self, number: int) -> None:
        try:
            self.ask(lambda: self.api.merge_pull_request(self.name, number, repo_type="dataset"))
        except ZydaError as error:
            where = f"{self.page}/discussions/{number}"
            raise type(error)(
                f"{error}; all files are in the pull request {where}, which is not merged"
            ) from error


def repository_of(name: str) -> Repository:
    """Return the repository of a name, `lab/corpus`. Raises BadInput where it is none."""
    from huggingface_hub.errors import HFValidationError  # late
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # late

    short = name.removeprefix(DATASETS).removeprefix("datasets/").strip("/")
    try:
        validate_repo_id(short)
    except HFValidationError as error:
        raise BadInput(f"{name!r} is no name of a repository on the hub: {first_sentence(error)}") from error
    if short.count("/") != 1:
        raise BadInput(f"{name!r} is no name of a repository on the hub; expected OWNER/NAME")
    return Repository(short)


def first_sentence(error: BaseException) -> str:
    return " ".join(str(error).split("\n\n")[-1].split())[:300]


@dataclass
class Push:
    """A push of the corpus that is published now. to_send: files that are to be sent; to_delete: those that go.

    ours: paths that a push has put there. others: files that none has, and that stay.
    """

    repository: Repository
    corpus: PublishedCorpus
    files: dict[str, File]
    revision: str = "main"
    number: int | None = None
    to_send: list[File] = field(default_factory=list)
    to_delete: list[str] = field(default_factory=list)
    ours: set[str] = field(default_factory=set)
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
        """Say what is to be done."""
        if not (self.to_send or self.to_delete) and self.number is not None:
            yield "all files are in the pull request of a push before; it is merged now"
        elif not (self.to_send or self.to_delete):
            yield f"nothing to send: {self.repository.url} has the corpus as it is published"
        else:
            yield (
                f"{counted(len(self.to_send), 'file')} of {len(self.files):,} to send, {self.size:,} bytes; "
                f"{counted(len(self.to_delete), 'file')} to delete there"
            )
        if self.others:
            yield f"{counted(len(self.others), 'file')} that no push has put there stay: {self.others[0]}" + (
                ", ..." if len(self.others) > 1 else ""
            )
        if not self.corpus.manifest.recipe.get("license"):
            yield "the recipe says no `license`, so the card has none"

    def begin(self) -> None:
        """Compare the repository with the corpus, and find or open the pull request where they differ."""
        self.ours = pushed_before(self.repository)
        main = self.repository.tree("main")
        self.compare(main)
        if self.to_send or self.to_delete:
            self.revision, self.number = self.repository.pull_request(
                TITLE.format(corpus=self.corpus.manifest.corpus)
            )
            waiting = self.repository.tree(self.revision)
            self.ours |= waiting.keys() - main.keys()  # of a push that was interrupted
            known = {*self.ours, *self.files, GIT_ATTRIBUTES}
            if changed := [path for path in waiting if path not in known and waiting[path] != main[path]]:
                raise Denied(
                    f"{self.repository.page}/discussions/{self.number}: this pull request of a push changes "
                    f"{changed[0]}, which no push does; close it and push again"
                )
            self.compare(waiting)

    def compare(self, there: dict[str, tuple[int, str]]) -> None:
        """Find what of a revision is not as it is published."""
        self.to_send = [
            file
            for file in self.files.values()
            if not is_as_published(self.corpus.folder, file, there.get(file.path))
        ]
        self.to_delete = sorted(path for path in there if path in self.ours and path not in self.files)
        known = {*self.ours, *self.files, GIT_ATTRIBUTES}
        self.others = sorted(path for path in there if path not in known)

    def send(self, tell: Callable[[int], object]) -> None:
        """Send what is to be sent to the pull request, until all is there. tell: is called with the bytes sent.

        Raises Unavailable where something does not arrive, Denied where the corpus is another one by now.
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
                    f"{len(self.to_delete):,} files that are not in {self.corpus.manifest.corpus} any more"
                )
                self.repository.commit(partial(deletions, self.to_delete), message, self.revision)
            self.compare(self.repository.tree(self.revision))
            if not (self.to_send or self.to_delete):
                return
        path = [*(file.path for file in self.to_send), *self.to_delete][0]
        raise Unavailable(
            f"{self.repository.url}: {path} was sent {ROUNDS} times, and what is there is not as it is published; "
            "nothing of it is visible; push again later"
        )

    def finish(self) -> None:
        """Make what was sent visible. Raises Denied where the corpus is another one by now."""
        self.expect_unchanged()
        if self.number is not None:
            self.repository.merge(self.number)

    def expect_whole(self, files: Sequence[File]) -> None:
        """Raise Denied where published files are not as they were written."""
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
    """Prepare to push the corpus that is published now. Raises BadInput, Denied, Unavailable."""
    repository = repository_of(name)
    corpus = PublishedCorpus.of(recipe)
    files = [*corpus.files(), *corpus.manifest.named]
    itself = File(path=MANIFEST, sha256=corpus.digest, size=corpus.folder.size_of(MANIFEST) or 0)
    repository.prepare(private=private)
    push = Push(repository, corpus, {file.path: file for file in (*files, itself)})
    push.begin()
    return push


def pushed_before(repository: Repository) -> set[str]:
    """Return the paths of what was pushed to a repository before, by its manifest; nothing where it has none."""
    commit = repository.ask(lambda: repository.api.repo_info(**repository.its).sha)
    there = Folder(f"{repository.url}@{commit}")  # its client remembers what a branch had
    try:
        content = there.read_if_there(MANIFEST)
        if content is None:
            return set()
        corpus = PublishedCorpus.from_manifest(there, content)
        paths = {file.path for file in (*corpus.manifest.named, *corpus.files())}
    except (Damaged, Denied) as error:  # the manifest is not of a corpus
        warn(
            f"{repository.url}/{MANIFEST} is of no corpus; nothing is deleted there ({first_sentence(error)})"
        )
        return set()
    return {MANIFEST, *paths}


def is_as_published(folder: Folder, file: File, there: tuple[int, str] | None) -> bool:
    """Say whether a file of a repository is that of the corpus: by its SHA-256, or git's digest."""
    if there is None or there[0] != file.size:
        return False
    if there[1] == file.sha256:
        return True
    if len(there[1]) == len(file.sha256):
        return False
    content = folder.read(file.path)
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == there[1]


def batches(files: Sequence[File]) -> Iterator[list[File]]:
    """Cut files into as many as one commit takes; the manifest comes last."""
    batch, size = list[File](), 0
    for file in sorted(files, key=lambda one: (one.path == MANIFEST, one.path)):
        if batch and (len(batch) == MOST_FILES or size + file.size > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


@contextmanager
def local_files(folder: Folder, files: Sequence[File]) -> Iterator[dict[str, str]]:
    """Give the paths of published files on this machine's disk: where they are, or copies of them."""
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
