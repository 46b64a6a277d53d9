"""Test `zyda init`: refused inputs, notes in the recipe, and the paths of the recipe and its corpus."""

import gzip
import http.server
import re
import threading
from functools import partial

import fsspec
import pytest
import yaml
from huggingface_hub import HfFileSystem
from init_files import init, jsonl, lines, parquet, written_recipe
from small_corpus import prose, write_rows, zyda_here
from stand_in_hub import StandInHub, point_client_at

from zyda_flows.tasks.recipe.loading import load_recipe

pytestmark = pytest.mark.slow


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
    """Return an empty folder that is the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hub(monkeypatch):
    stand_in = StandInHub()
    point_client_at(stand_in, monkeypatch)
    yield stand_in
    stand_in.close()
    HfFileSystem.clear_instance_cache()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served_folder(tmp_path_factory):
    """Return a folder and the URL at which a web server publishes it."""
    folder = tmp_path_factory.mktemp("web")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def make_empty_folder(path):
    (path / "empty").mkdir()


def write(name, content):
    return lambda path: (path / name).write_bytes(content)


FAULTS = {
    "an empty folder": (make_empty_folder, "empty", "the folder empty has no files"),
    "missing file": (make_empty_folder, "nowhere.jsonl", "no file matches .*/nowhere.jsonl"),
    "a picture": (write("a.png", b"\x89PNG\r\n\x1a\n"), "a.png", r"file .*/a\.png: its ending is none of"),
    "an archive": (write("a.zip", b"PK\x03\x04"), "a.zip", r"file .*/a\.zip: its ending is none of"),
    "a picture with another name": (write("a.txt", b"\x89PNG\r\n"), "a.txt", r"file .*/a\.txt: .*: invalid UTF-8 at byte 0"),
    "an archive with another name": (write("a.jsonl", b"PK\x03\x04\n"), "a.jsonl", r"file .*/a\.jsonl: .*: invalid JSON"),
    "latin-1": (write("a.csv", "text\nété\n".encode("latin-1")), "a.csv", r"file .*/a\.csv: .*: invalid UTF-8 at byte"),
    "JSON array": (write("a.json", b'[\n {"text": "x"}\n]\n'), "a.json", "looks like one JSON value"),
    "columns of numbers": (write("a.jsonl", b'{"n": 1, "m": 2.5}\n'), "a.jsonl", r"its columns: 'n' \(int64\), 'm' \(double\)"),
    "semicolons": (write("a.csv", b"text;n\na;1\n"), "a.csv", "its columns are not separated by commas: 'text;n'"),
    "empty file": (write("a.jsonl", b""), "a.jsonl", r"file .*/a\.jsonl: it has 0 bytes"),
    "truncated Parquet": (write("a.parquet", b"PAR1 and no footer"), "a.parquet", r"file .*/a\.parquet: cannot be read"),
    "a password": (make_empty_folder, "https://me:secret@example.org/a.jsonl", "a recipe must not contain credentials"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_unreadable_input_is_one_line_and_writes_no_recipe(working_folder, kind):
    make, name, fault = FAULTS[kind]
    make(working_folder)
    completed = init(name)
    assert completed.returncode == 1
    assert re.fullmatch(rf"zyda: .*{fault}.*\n", completed.stderr), completed.stderr
    assert "secret" not in completed.stderr
    assert not (working_folder / "recipe.yaml").exists()


def test_pattern_argument_is_written_as_a_pattern(working_folder):
    write_rows(working_folder / "a.jsonl", [{"text": prose("a")}])
    write_rows(working_folder / "b.jsonl", [{"text": prose("b")}])
    assert written_recipe("*.jsonl").sources[0].files == (f"{working_folder}/*.jsonl",)


def test_bad_first_rows_are_listed_and_set_aside(working_folder):
    rows = [{"text": prose("a")}, {"text": None}, {"text": prose("b")}]
    (working_folder / "a.jsonl").write_bytes(lines(rows) + b"no JSON\n")
    (working_folder / "b.txt").write_bytes("été".encode("latin-1"))
    (working_folder / "c.txt").write_text("a text")
    recipe = written_recipe("a.jsonl", "b.txt", "c.txt")
    assert recipe.on_bad_rows == "set_aside"
    text = (working_folder / "recipe.yaml").read_text()
    assert "# no document: a: a.jsonl, row 3: invalid JSON" in text
    assert "1 row without a text in 'text'" in text
    assert "b.txt, row 0: invalid UTF-8 at byte 0" in text


def test_missing_output_folder_fails_before_reading(working_folder):
    completed = init("nothing.jsonl", "--output", "nowhere/recipe.yaml")
    assert (completed.returncode, completed.stderr) == (
        1, f"zyda: nowhere/recipe.yaml: there is no folder {working_folder.resolve() / 'nowhere'}\n"
    )  # fmt: skip


def test_existing_recipe_is_not_replaced(working_folder):
    parquet(working_folder)
    (working_folder / "recipe.yaml").write_text("mine")
    completed = init("flat.parquet")
    assert (completed.returncode, completed.stderr) == (
        1, "zyda: recipe.yaml: the file exists; give another --output, or replace it with --replace\n"
    )  # fmt: skip
    assert (working_folder / "recipe.yaml").read_text() == "mine"
    printed = init("flat.parquet", "--output", "-")
    assert yaml.safe_load(printed.stdout)["sources"][0]["files"] == "flat.parquet"
    (working_folder / "sub").mkdir()
    assert init("flat.parquet", "--output", "sub/r.yaml").stdout.endswith("next: zyda check sub/r.yaml\n")
    assert load_recipe("sub/r.yaml").sources[0].files == (str(working_folder / "flat.parquet"),)


def test_storage_is_outside_of_a_recursively_read_folder(working_folder):
    write_rows(working_folder / "data/deep/a.parquet", [{"text": prose("a")}])
    recipe = written_recipe(".")
    assert recipe.storage == f"{working_folder}-corpus"
    completed = init(".", "--replace", "--storage", "data/out")
    assert completed.returncode == 1
    assert "the corpus would lie in it; choose another place" in completed.stderr


def test_unavailable_tokenizer_fails_except_the_default(working_folder):
    parquet(working_folder)
    completed = zyda_here("init", "flat.parquet", "--tokenizer", "nothing.json")
    assert (completed.returncode, completed.stderr.partition(" cannot")[0]) == (
        1,
        "zyda: tokenizer: nothing.json",
    )
    completed = zyda_here("init", "flat.parquet")  # no test reaches the hub
    assert completed.returncode == 0
    assert "Give another with --tokenizer, or in the recipe" in completed.stderr
    assert (
        yaml.safe_load((working_folder / "recipe.yaml").read_text())["tokenizer"] == "EleutherAI/gpt-neox-20b"
    )


def test_files_of_a_web_server_are_written_as_urls(working_folder, served_folder):
    folder, url = served_folder
    parquet(folder)
    jsonl("b.jsonl.gz", "body", gzip.compress)(folder)
    recipe = written_recipe(f"{url}/flat.parquet", f"{url}/b.jsonl.gz")
    assert [(source.files, source.text) for source in recipe.sources] == [
        ((f"{url}/flat.parquet",), "text"), ((f"{url}/b.jsonl.gz",), "body"),
    ]  # fmt: skip
    completed = init(f"{url}/nothing.jsonl", "--replace")
    assert (completed.returncode, completed.stderr) == (
        1,
        f"zyda: input: no file matches {url}/nothing.jsonl: its server answered with status 404\n",
    )


def test_repository_on_the_hub_is_read_as_a_folder(working_folder, hub):
    files = {f"data/part-{number}.jsonl": lines([{"text": prose(f"d{number}")}]) for number in range(3)}
    hub.commit("lab/web", {**files, "README.md": b"# a card", ".gitattributes": b"*.parquet lfs"})
    recipe = written_recipe("hf://datasets/lab/web")
    (source,) = recipe.sources
    assert (source.name, source.files) == ("web", ("hf://datasets/lab/web/**/*.jsonl",))
    assert "README.md: its name is that of a file about data" in (working_folder / "recipe.yaml").read_text()


def test_files_of_an_object_store_are_read(working_folder, s3):
    with fsspec.open(f"{s3}/in/deep/a.jsonl", "wb") as file:
        file.write(lines([{"body": prose("a")}]))
    recipe = written_recipe(f"{s3}/in")
    assert [(source.files, source.text) for source in recipe.sources] == [((f"{s3}/in/**/*.jsonl",), "body")]
