"""`zyda init`: what is refused, what is stated, and where a recipe and its corpus lie."""

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
def here(tmp_path, monkeypatch):
    """Give a folder of this test, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hub(monkeypatch):
    made = StandInHub()
    point_client_at(made, monkeypatch)
    yield made
    made.close()
    HfFileSystem.clear_instance_cache()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path_factory):
    """Give a folder, and the URL at which a web server has it."""
    folder = tmp_path_factory.mktemp("web")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def nothing(path):
    (path / "empty").mkdir()


def write(name, content):
    return lambda path: (path / name).write_bytes(content)


FAULTS = {
    "an empty folder": (nothing, "empty", "the folder empty has no files"),
    "no file": (nothing, "nowhere.jsonl", "no file matches .*/nowhere.jsonl"),
    "a picture": (write("a.png", b"\x89PNG\r\n\x1a\n"), "a.png", r"file .*/a\.png: its ending is none of"),
    "an archive": (write("a.zip", b"PK\x03\x04"), "a.zip", r"file .*/a\.zip: its ending is none of"),
    "a picture with another name": (write("a.txt", b"\x89PNG\r\n"), "a.txt", r"file .*/a\.txt: .*: invalid UTF-8 at byte 0"),
    "an archive with another name": (write("a.jsonl", b"PK\x03\x04\n"), "a.jsonl", r"file .*/a\.jsonl: .*: invalid JSON"),
    "latin-1": (write("a.csv", "text\nété\n".encode("latin-1")), "a.csv", r"file .*/a\.csv: .*: invalid UTF-8 at byte"),
    "an array of JSON": (write("a.json", b'[\n {"text": "x"}\n]\n'), "a.json", "looks like one JSON value"),
    "columns of numbers": (write("a.jsonl", b'{"n": 1, "m": 2.5}\n'), "a.jsonl", r"its columns: 'n' \(int64\), 'm' \(double\)"),
    "semicolons": (write("a.csv", b"text;n\na;1\n"), "a.csv", "its columns are not separated by commas: 'text;n'"),
    "nothing in it": (write("a.jsonl", b""), "a.jsonl", r"file .*/a\.jsonl: it has 0 bytes"),
    "a Parquet file that is cut": (write("a.parquet", b"PAR1 and no footer"), "a.parquet", r"file .*/a\.parquet: cannot be read"),
    "a password": (nothing, "https://me:secret@example.org/a.jsonl", "a recipe must not contain credentials"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_input_that_cannot_be_read_is_an_error_of_one_line_and_writes_nothing(here, kind):
    make, name, fault = FAULTS[kind]
    make(here)
    said = init(name)
    assert said.returncode == 1
    assert re.fullmatch(rf"zyda: .*{fault}.*\n", said.stderr), said.stderr
    assert "secret" not in said.stderr
    assert not (here / "recipe.yaml").exists()


def test_patterns_of_this_folder_are_read_as_patterns(here):
    write_rows(here / "a.jsonl", [{"text": prose("a")}])
    write_rows(here / "b.jsonl", [{"text": prose("b")}])
    assert written_recipe("*.jsonl").sources[0].files == (f"{here}/*.jsonl",)


def test_bad_rows_among_the_first_are_stated_and_set_aside(here):
    rows = [{"text": prose("a")}, {"text": None}, {"text": prose("b")}]
    (here / "a.jsonl").write_bytes(lines(rows) + b"no JSON\n")
    (here / "b.txt").write_bytes("été".encode("latin-1"))
    (here / "c.txt").write_text("a text")
    recipe = written_recipe("a.jsonl", "b.txt", "c.txt")
    assert recipe.on_bad_rows == "set_aside"
    text = (here / "recipe.yaml").read_text()
    assert "# no document: a: a.jsonl, row 3: invalid JSON" in text
    assert "1 row without a text in 'text'" in text
    assert "b.txt, row 0: invalid UTF-8 at byte 0" in text


def test_recipe_in_a_folder_that_is_not_there_is_refused_before_anything_is_read(here):
    said = init("nothing.jsonl", "--output", "nowhere/recipe.yaml")
    assert (said.returncode, said.stderr) == (
        1, f"zyda: nowhere/recipe.yaml: there is no folder {here.resolve() / 'nowhere'}\n"
    )  # fmt: skip


def test_recipe_that_is_there_is_not_replaced(here):
    parquet(here)
    (here / "recipe.yaml").write_text("mine")
    said = init("flat.parquet")
    assert (said.returncode, said.stderr) == (
        1, "zyda: recipe.yaml: the file exists; give another --output, or replace it with --replace\n"
    )  # fmt: skip
    assert (here / "recipe.yaml").read_text() == "mine"
    printed = init("flat.parquet", "--output", "-")
    assert yaml.safe_load(printed.stdout)["sources"][0]["files"] == "flat.parquet"
    (here / "sub").mkdir()
    assert init("flat.parquet", "--output", "sub/r.yaml").stdout.endswith("next: zyda check sub/r.yaml\n")
    assert load_recipe("sub/r.yaml").sources[0].files == (str(here / "flat.parquet"),)


def test_corpus_lies_outside_of_a_folder_that_is_read_with_all_below_it(here):
    write_rows(here / "data/deep/a.parquet", [{"text": prose("a")}])
    recipe = written_recipe(".")
    assert recipe.storage == f"{here}-corpus"
    said = init(".", "--replace", "--storage", "data/out")
    assert said.returncode == 1
    assert "the corpus would lie in it; choose another place" in said.stderr


def test_tokenizer_that_cannot_be_loaded_is_an_error_unless_it_is_the_default(here):
    parquet(here)
    said = zyda_here("init", "flat.parquet", "--tokenizer", "nothing.json")
    assert (said.returncode, said.stderr.partition(" cannot")[0]) == (1, "zyda: tokenizer: nothing.json")
    said = zyda_here("init", "flat.parquet")  # no test reaches the hub
    assert said.returncode == 0
    assert "Give another with --tokenizer, or in the recipe" in said.stderr
    assert yaml.safe_load((here / "recipe.yaml").read_text())["tokenizer"] == "EleutherAI/gpt-neox-20b"


def test_files_of_a_web_server_are_named_by_their_urls(here, served):
    folder, url = served
    parquet(folder)
    jsonl("b.jsonl.gz", "body", gzip.compress)(folder)
    recipe = written_recipe(f"{url}/flat.parquet", f"{url}/b.jsonl.gz")
    assert [(source.files, source.text) for source in recipe.sources] == [
        ((f"{url}/flat.parquet",), "text"), ((f"{url}/b.jsonl.gz",), "body"),
    ]  # fmt: skip
    said = init(f"{url}/nothing.jsonl", "--replace")
    assert (said.returncode, said.stderr) == (
        1,
        f"zyda: input: no file matches {url}/nothing.jsonl: its server answered with status 404\n",
    )


def test_repository_on_the_hub_is_read_as_a_folder(here, hub):
    files = {f"data/part-{number}.jsonl": lines([{"text": prose(f"d{number}")}]) for number in range(3)}
    hub.commit("lab/web", {**files, "README.md": b"# a card", ".gitattributes": b"*.parquet lfs"})
    recipe = written_recipe("hf://datasets/lab/web")
    (source,) = recipe.sources
    assert (source.name, source.files) == ("web", ("hf://datasets/lab/web/**/*.jsonl",))
    assert "README.md: its name is that of a file about data" in (here / "recipe.yaml").read_text()


def test_tables_of_a_store_are_read(here, s3):
    with fsspec.open(f"{s3}/in/deep/a.jsonl", "wb") as file:
        file.write(lines([{"body": prose("a")}]))
    recipe = written_recipe(f"{s3}/in")
    assert [(source.files, source.text) for source in recipe.sources] == [((f"{s3}/in/**/*.jsonl",), "body")]
