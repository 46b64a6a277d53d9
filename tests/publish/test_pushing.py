"""Pushes to the hub: complete or invisible, sent once, and files of other people are kept."""

import hashlib
import json

import pytest
from huggingface_hub import HfFileSystem
from small_corpus import Corpus, build_here, prose, published, rows, write_rows
from stand_in_hub import StandInHub, point_client_at

from zyda_flows.tasks.errors import BadInput, Denied, Unavailable
from zyda_flows.tasks.publish import hub_limits, pushing
from zyda_flows.tasks.publish.pushing import push_of
from zyda_flows.tasks.storage import stores

NAME = "lab/small"


@pytest.fixture
def hub(monkeypatch):
    stand_in = StandInHub()
    point_client_at(stand_in, monkeypatch)
    monkeypatch.setenv("HF_TOKEN", "hf_write")
    monkeypatch.setattr(stores, "SECONDS_BEFORE_ASKING_AGAIN", (0.01, 0.01))
    monkeypatch.setattr(stores, "LEAST_WAIT", 0.0)
    monkeypatch.setattr(pushing, "MOST_FILES", 4)
    yield stand_in
    stand_in.close()
    HfFileSystem.clear_instance_cache()


@pytest.fixture
def corpus(tmp_path):
    corpus = Corpus(tmp_path)
    build_here(corpus.load(license="odc-by"))
    corpus.recipe["license"] = "odc-by"
    return corpus


def push(recipe, name=NAME):
    """Push a corpus; return the number of sent bytes."""
    pushed, told = push_of(recipe, name), []
    pushed.send(told.append)
    pushed.finish()
    assert sum(told) == pushed.size or not pushed.to_send
    return sum(told)


def on_hub(hub, revision="main"):
    """Return the SHA-256 of the corpus's files in a revision."""
    return {path: digest for path, digest in hub.tree(NAME, revision)[1].items() if path != ".gitattributes"}


def on_disk(recipe):
    folder = published(recipe)
    return {path: hashlib.sha256(folder.read(path)).hexdigest() for path in folder.files("")}


def test_hub_has_the_published_files_and_a_change_sends_changed_files(hub, corpus):
    recipe = corpus.load()
    push(recipe)
    assert on_hub(hub) == on_disk(recipe)
    card = hub.blobs[on_hub(hub)["README.md"]].decode()
    assert "license: odc-by" in card.split("---")[1]
    sent = hub.uploaded
    assert push(recipe) == 0
    assert hub.uploaded == sent
    assert len(hub.pulls[NAME]) == 1

    hub.change(
        NAME, "main", {"figure.png": hub.uploaded and on_hub(hub)["README.md"]}, set()
    )  # a file of another person
    write_rows(corpus.folder / "in/worst-9.arrow", rows(new=prose("new"), newer=prose("newer")))
    (corpus.folder / "in/worst-1.arrow").unlink()
    before = on_disk(recipe)
    build_here(recipe)
    now = on_disk(recipe)
    push(recipe)
    assert {path: digest for path, digest in on_hub(hub).items() if path != "figure.png"} == now
    assert "figure.png" in on_hub(hub)
    changed = {path for path, digest in now.items() if before.get(path) != digest}
    assert hub.uploaded - sent == sum(published(recipe).size_of(path) for path in changed)
    unchanged = [path for path in now if path.endswith(".parquet") and path not in changed]
    assert any(path.startswith("best/") for path in unchanged)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["commit", "upload", "api"])
def test_push_to_a_throttling_hub_succeeds(hub, corpus, kind):
    for status, headers in ((429, {"Retry-After": "0"}), (503, {}), (500, {})):
        hub.refusal = (status, headers)
        hub.busy[kind] = 2
        push(corpus.load(), NAME)
        assert on_hub(hub) == on_disk(corpus.load())


def test_lost_files_are_sent_again_and_a_failing_push_shows_nothing(hub, corpus):
    recipe = corpus.load()
    hub.forgets = 3
    push(recipe)
    assert on_hub(hub) == on_disk(recipe)
    write_rows(corpus.folder / "in/worst-9.arrow", rows(new=prose("new")))
    before = on_hub(hub)
    build_here(recipe)
    hub.forgets = 1000
    with pytest.raises(Unavailable, match=r"was sent 3 times.*nothing of it is visible"):
        push(recipe)
    assert on_hub(hub) == before


def test_push_names_folders_with_more_files_than_the_hub_recommends(hub, corpus, monkeypatch):
    recipe = corpus.load()
    assert not [line for line in push_of(recipe, NAME).sentences() if "recommends" in line]
    monkeypatch.setattr(hub_limits, "MOST_FILES", 5)
    monkeypatch.setattr(hub_limits, "MOST_IN_FOLDER", 2)
    (whole, folder) = (line for line in push_of(recipe, NAME).sentences() if "recommends" in line)
    assert whole.startswith(f"{len(on_disk(recipe))} files to publish: ")
    assert "published_mib" in whole
    assert " in a folder; " in folder


def test_interrupted_push_continues_and_shows_nothing_before(hub, corpus):
    recipe, told = corpus.load(), []

    def interrupted(size):
        told.append(size)
        if len(told) == 2:
            raise KeyboardInterrupt

    pushed = push_of(recipe, NAME)
    with pytest.raises(KeyboardInterrupt):
        pushed.send(interrupted)
    assert on_hub(hub) == {}
    waiting = on_hub(hub, "refs/pr/1")
    assert len(waiting) == 8
    sent = hub.uploaded
    again = push_of(recipe, NAME)
    assert {file.path for file in again.to_send} == on_disk(recipe).keys() - waiting.keys()
    again_size = again.size
    again.send(lambda _: None)
    assert "all files are in the pull request" in next(push_of(recipe, NAME).sentences())
    again.finish()
    assert "nothing to send" in next(push_of(recipe, NAME).sentences())
    assert on_hub(hub) == on_disk(recipe)
    assert len(hub.pulls[NAME]) == 1
    assert hub.uploaded - sent == again_size


def test_corpus_republished_during_a_push_is_an_error(hub, corpus):
    recipe = corpus.load()
    push(recipe)
    before = on_hub(hub)
    write_rows(corpus.folder / "in/worst-9.arrow", rows(new=prose("new")))
    build_here(recipe)
    pushed = push_of(recipe, NAME)

    def build_again(_):
        write_rows(corpus.folder / "in/worst-8.arrow", rows(newest=prose("newest")))
        build_here(recipe)

    with pytest.raises(Denied, match="another version of this corpus was published during the push"):
        pushed.send(build_again)
    assert on_hub(hub) == before
    push(recipe)
    assert on_hub(hub) == on_disk(recipe)


@pytest.mark.parametrize(
    "harm", [lambda content: content[:-9], lambda content: bytes([*content[:9], 1, *content[10:]])]
)
def test_a_damaged_file_is_not_pushed(hub, corpus, harm):
    recipe = corpus.load()
    path = next(path for path in on_disk(recipe) if path.startswith("best/"))
    damaged = corpus.folder / "out/small/published" / path
    damaged.chmod(0o644)
    damaged.write_bytes(harm(damaged.read_bytes()))
    with pytest.raises(Denied, match=f"{path} has .*; zyda verify --repair repairs it"):
        push(recipe)
    assert on_hub(hub) == {}


def test_corpus_in_a_store_is_pushed(hub, corpus, s3, request):
    recipe = corpus.load(storage=f"{s3}/{request.node.name}")
    build_here(recipe)
    push(recipe)
    assert on_hub(hub) == on_disk(recipe)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["small", "lab/small/more", "lab/", "lab/sm all", "https://huggingface.co/lab/small", "", "lab/a--b"],
)
def test_invalid_repository_name_is_an_error(hub, corpus, name):
    with pytest.raises(BadInput, match="is no name of a repository on the hub"):
        push_of(corpus.load(), name)
    assert not hub.requests


def test_token_without_write_permission_is_an_error_before_sending(hub, corpus, monkeypatch):
    hub.commit(NAME, {"README.md": b"# another's"})
    for token, said in (
        ("hf_read", "the token may not write there"), ("", "no token for the hub"), ("hf_é", "no token for the hub")
    ):  # fmt: skip
        monkeypatch.setenv("HF_TOKEN", token)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(corpus.folder / "none"))
        monkeypatch.setattr("huggingface_hub.constants.HF_STORED_TOKENS_PATH", str(corpus.folder / "none"))
        with pytest.raises(Denied, match=said) as raised:
            push_of(corpus.load(), NAME)
        assert "\n" not in str(raised.value)
        assert "hf_read" not in str(raised.value)
    assert hub.uploaded == 0


def test_push_without_a_published_corpus_is_an_error(hub, tmp_path):
    with pytest.raises(Denied, match="nothing is published"):
        push_of(Corpus(tmp_path).load(), NAME)


def test_repository_with_a_foreign_manifest_keeps_its_files(hub, corpus):
    hub.commit(NAME, {"manifest.json": json.dumps({"files": ["a"]}).encode(), "a": b"a", "README.md": b"# a"})
    push(corpus.load())
    assert on_hub(hub).keys() == {*on_disk(corpus.load()), "a"}


def test_main_that_changes_during_a_push_is_an_error(hub, corpus):
    pushed = push_of(corpus.load(), NAME)
    pushed.send(lambda _: None)
    hub.change(NAME, "main", {"note.md": on_hub(hub, "refs/pr/1")["README.md"]}, set())
    with pytest.raises((Denied, Unavailable), match=r"discussions/1, which is not merged"):
        pushed.finish()
    assert on_hub(hub).keys() == {"note.md"}


def test_flow_shows_progress_and_bytes_sent(hub, corpus, server):
    from prefect.client.orchestration import get_client

    from zyda_flows.flows.dashboard.artifact_keys import artifact_key
    from zyda_flows.flows.push import push as flow

    page = flow(str(corpus.path), NAME)
    assert page == f"{hub.endpoint}/datasets/{NAME}"
    assert on_hub(hub) == on_disk(corpus.load())
    with get_client(sync_client=True) as client:
        artifacts = client.read_artifacts(limit=200)
    (link,) = [artifact for artifact in artifacts if artifact.key == artifact_key(corpus.load(), "pushed")]
    assert page in link.data
    assert 100 in [artifact.data for artifact in artifacts if artifact.description == "Sent to the hub"]
    flow(str(corpus.path), NAME)
    assert len(hub.pulls[NAME]) == 1


def test_foreign_pull_requests_and_foreign_changes_are_not_merged(hub, corpus):
    hub.commit(NAME, {".gitattributes": b"*.parquet", "note.md": b"theirs"})
    push_of(corpus.load(), NAME)
    hub.pulls[NAME][0]["author"] = "mallory"
    hub.change(NAME, "refs/pr/1", {"note.md": hub.tree(NAME, "main")[1][".gitattributes"]}, set())
    pushed = push_of(corpus.load(), NAME)
    assert pushed.number == 2
    before = on_hub(hub)
    hub.change(NAME, "refs/pr/2", {"note.md": hub.tree(NAME, "main")[1][".gitattributes"]}, set())
    with pytest.raises(Denied, match=r"discussions/2: .* changes note\.md, which no push does"):
        push_of(corpus.load(), NAME)
    assert on_hub(hub) == before
