"""A dataset repository of the Hugging Face hub: its files, pull requests and commits."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from zyda_flows.tasks.errors import BadInput, Denied, ZydaError
from zyda_flows.tasks.recipe.values import HUB
from zyda_flows.tasks.storage.stores import ask_again, explain_errors

DATASETS = f"{HUB}datasets/"
LOGIN = "no token for the hub: set HF_TOKEN, or run `hf auth login`; the token needs write permission"

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Repository:
    """A dataset repository of the hub. name: OWNER/NAME. Its methods raise Denied and Unavailable."""

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
    def identity(self) -> dict[str, str]:
        return {"repo_id": self.name, "repo_type": "dataset"}

    def request(self, call: Callable[[], Answer]) -> Answer:
        """Call the hub, again if it does not answer, and after the time that it asks for if it limits requests."""
        from huggingface_hub.errors import HfHubHTTPError  # late

        def once() -> Answer:
            with explain_errors(self.url):
                try:
                    return call()
                except HfHubHTTPError as error:
                    if error.response is not None and error.response.status_code in (401, 403):
                        raise Denied(
                            f"{self.url}: the token may not write there: {first_sentence(error)}"
                        ) from error
                    raise
                except RuntimeError as error:  # of a thread of the client that uploads a file
                    raise error.__cause__ or error from None

        return ask_again(once)

    def prepare(self, *, private: bool) -> None:
        """Create the repository if it is missing, and check the permission to write to it."""
        from huggingface_hub import get_token  # late

        if not (get_token() or "").isascii() or not get_token():
            raise Denied(f"{self.url}: {LOGIN}")
        self.request(lambda: self.api.create_repo(**self.identity, private=private or None, exist_ok=True))
        self.request(lambda: self.api.auth_check(**self.identity, write=True))

    def tree(self, revision: str) -> dict[str, tuple[int, str]]:
        """List the files of a revision by path, with their sizes and SHA-256; small files with git's digest."""

        def listed() -> dict[str, tuple[int, str]]:
            entries = self.api.list_repo_tree(**self.identity, revision=revision, recursive=True)
            files = (entry for entry in entries if hasattr(entry, "blob_id"))
            return {file.path: (file.size, file.lfs.sha256 if file.lfs else file.blob_id) for file in files}

        return self.request(listed)

    def pull_request(self, title: str) -> tuple[str, int]:
        """Return revision and number of the open pull request with a title by the token's owner, or of a new one.

        A pull request of another person is not used: merging it would publish that person's files.
        """

        def find() -> int | None:
            owner = self.api.whoami()["name"]
            requests = self.api.get_repo_discussions(
                **self.identity, discussion_type="pull_request", author=owner
            )
            return next(
                (
                    request.num
                    for request in requests
                    if (request.title, request.author) == (title, owner)
                    and request.status in ("open", "draft")
                ),
                None,
            )

        number = self.request(find)
        if number is None:
            number = self.request(lambda: self.api.create_pull_request(**self.identity, title=title).num)
        return f"refs/pr/{number}", number

    def commit(self, operations: Callable[[], list[Any]], message: str, revision: str) -> None:
        self.request(
            lambda: self.api.create_commit(
                **self.identity, operations=operations(), commit_message=message, revision=revision
            )
        )

    def merge(self, number: int) -> None:
        try:
            self.request(lambda: self.api.merge_pull_request(self.name, number, repo_type="dataset"))
        except ZydaError as error:
            where = f"{self.page}/discussions/{number}"
            raise type(error)(
                f"{error}; all files are in the pull request {where}, which is not merged"
            ) from error


def repository_of(name: str) -> Repository:
    """Return the repository of a name such as `lab/corpus`. Raises BadInput if the name is not valid."""
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
