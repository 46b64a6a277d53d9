"""The command line: help, completion, exit status, plain errors, and what explain says."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from small_corpus import COMMAND, REPOSITORY, build_here, table_of, zyda, zyda_here

from zyda_flows.flows.command.cli import app, main
from zyda_flows.tasks.recipe.loading import load_recipe

pytestmark = pytest.mark.slow


@pytest.fixture
def built(corpus):
    recipe = corpus.load()
    build_here(recipe)
    return recipe


NAMES = [command.name for command in app.registered_commands]


def test_commands_are_listed_in_groups():
    said = zyda("--help")
    assert said.returncode == 0
    listed = re.findall(r"^│ ([a-z]+)  ", said.stdout, re.MULTILINE)
    assert listed == NAMES
    assert len(re.findall("^╭─ (?!Options)", said.stdout, re.MULTILINE)) == 7


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", NAMES)
def test_help_breaks_only_where_the_terminal_ends(command, columns, monkeypatch, capsys):
    """A line that ends before a word that would have had room is the end of a sentence, or an example."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.argv", ["zyda", command, "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) == columns
    prose, _, examples = said.partition("For example:")
    above = prose.partition("╭─")[0].strip("\n ").splitlines()
    for line, following in pairwise(line.strip() for line in above):
        word = following.split(" ")[0]
        assert not line or not word or len(line) + 1 + len(word) > columns - 2, (line, following)
    for example in examples.strip().splitlines():
        assert "zyda " in example


def test_version_takes_a_moment():
    code = (
        "import sys; sys.argv[1:] = ['--version']; from zyda_flows.__main__ import main\n"
        "try: main()\n"
        "finally: print({'prefect', 'dask', 'numpy', 'pyarrow', 'rich'} & sys.modules.keys())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "zyda-flows 0.1.0\nset()\n")


def test_program_ends_before_python_is_taken_apart():
    """Threads of libraries may still use it then. What is to be done at the end is done."""
    code = (
        "import atexit; from zyda_flows.__main__ import End\n"
        "class Held:\n"
        "    def __del__(self): print('taken apart')\n"
        "held = Held()\n"
        "atexit.register(End(3))\n"
        "atexit.register(print, 'at the end')"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (3, "at the end\n")


def test_output_that_is_closed_or_that_nobody_reads_to_its_end_is_no_traceback(tmp_path):
    program = f"{sys.executable} -m zyda_flows params --threshold 0.8"
    for line in (f"{program} >&-", f"{program} | true"):
        said = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert said.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_finds_no_room_is_one_line():
    with open("/dev/full", "w") as full:
        program = [sys.executable, "-m", "zyda_flows", "params", "--threshold", "0.8"]
        said = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr == "zyda: the output, or a file of this machine: No space left on device\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_file_of_this_machine_that_cannot_be_written_is_one_line(monkeypatch, capfd, number):
    from zyda_flows.flows.command import cli

    def fail(**_):
        raise OSError(number, os.strerror(number), "/data/report.html")

    monkeypatch.setattr(cli, "app", fail)
    assert cli.main() == 1
    assert capfd.readouterr().err == f"zyda: /data/report.html: {os.strerror(number)}\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("zyda expl", ["explain"]),
        ("zyda build rec", ["recipes/a.yaml", "recipes/b.yml"]),
        ("zyda watch recipes/b", ["recipes/b.yml"]),
        ("zyda check recipes/odd[", ["recipes/odd[1].yaml"]),
        ("zyda status nothing", [""]),
    ],
)
def test_shell_completes_commands_and_recipes(tmp_path, typed, offered):
    (tmp_path / "recipes").mkdir()
    for name in ("a.yaml", "b.yml", "c.txt", *(["odd[1].yaml"] if "odd" in typed else [])):
        (tmp_path / "recipes" / name).touch()
    asked = {"_ZYDA_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    said = zyda(cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY), **asked})
    assert said.returncode == 0, said.stderr
    assert said.stdout.removesuffix("\n").split("\n") == offered


def test_shell_gets_a_script_that_completes():
    said = zyda("--show-completion", "bash")
    assert "complete -o default -F _zyda_completion zyda" in said.stdout


INTERRUPTED = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == AT:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from zyda_flows.__main__ import main
sys.exit(main())
"""
KEPT = "; finished work is kept; start the build again to continue"
STARTED = "; what has been started runs on; zyda up starts the rest, zyda down ends it"


@pytest.mark.parametrize(
    ("command", "module", "said"),
    [
        ("build RECIPE", "typer", KEPT),
        ("build RECIPE", "pyarrow", KEPT),
        ("build RECIPE", "prefect", KEPT),
        ("build RECIPE", "zyda_flows.flows.build", KEPT),
        ("up", "zyda_flows.deployments.local", STARTED),
        ("try RECIPE", "zyda_flows.tasks.planning.try_rules", ""),
        ("check RECIPE", "zyda_flows.tasks.planning.prepare", ""),
        ("report RECIPE", "matplotlib", ""),
        ("verify RECIPE", "yaml", ""),
        ("params", "numpy", ""),
    ],
)
def test_interruption_of_a_command_that_still_imports_is_one_line(corpus, command, module, said, terminal):
    code = INTERRUPTED.replace("AT", repr(module))
    arguments = command.replace("RECIPE", corpus.write()).split()
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=terminal(),
        cwd=REPOSITORY,
    )  # fmt: skip
    lines = [line for line in ended.stderr.splitlines(keepends=True) if not line.startswith("dashboard")]
    assert (ended.returncode, lines) == (130, [f"zyda: interrupted{said}\n"])


def test_interruption_of_a_command_that_works_is_one_line(corpus):
    pages = subprocess.Popen(
        [*COMMAND, "find", corpus.write(), "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    # All of this is written only when it reads what somebody would type.
    pages.stdin.write("more than a pipe holds, " * 10_000)
    pages.send_signal(signal.SIGINT)
    assert pages.communicate() == ("", "zyda: interrupted\n")
    assert pages.returncode == 130


@pytest.mark.parametrize("command", ["build", "ledger"])
def test_fault_in_a_recipe_is_a_line_and_exit_status_1(corpus, command):
    path = corpus.write(dedup={"bands": 7})
    said = zyda(command, path)
    assert said.returncode == 1
    assert re.fullmatch(
        r"zyda: .*recipe\.yaml:\d+: dedup: values \(128\) must be bands x rows .*\n", said.stderr
    )


def test_faults_in_the_input_are_lines_and_exit_status_1(corpus, tmp_path, server):
    sources = [
        {"name": "a", "files": "in/nothing*"},
        {"name": "b", "files": "in/best-*.parquet", "text": "body"},
    ]
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    said = zyda("build", corpus.write(sources=sources), env={**alone, "PREFECT_HOME": str(tmp_path / "home")})
    assert said.returncode == 1
    first, *others = said.stderr.splitlines()  # and no server is asked
    assert re.fullmatch(r"zyda: \S+recipe\.yaml:\d+: source a: no file matches .*nothing\*", first)
    assert [": source b, file " in line and "no column 'body'" in line for line in others] == [True, True]
    again = zyda("build", corpus.write(sources=sources[1:]), env={**os.environ, "PREFECT_API_URL": server})
    assert len(re.findall(r"^zyda: \S+: source b, file .*no column 'body'", again.stderr, re.MULTILINE)) == 2


def test_ledger_prints_text_json_and_markdown(corpus, built):
    text, as_json, markdown = (
        zyda_here("ledger", str(corpus.path), "--format", form).stdout
        for form in ("text", "json", "markdown")
    )
    assert "middle" in text
    assert "\ndeduplication removed " in text
    assert "\nAudit: " in text
    assert "published: " in text
    assert {row["source"] for row in json.loads(as_json)} == {"best", "middle", "worst"}
    assert markdown.startswith("| source | start |")


def test_part_of_the_input_is_more_than_nothing_and_no_more_than_all(corpus):
    for part in ("0", "1.5", "nan", "-1"):
        said = zyda("build", corpus.write(), f"--sample={part}")
        assert said.returncode == 2
        assert "is not a part of the input" in said.stderr


def test_fault_of_an_option_names_the_option_and_no_line_of_the_recipe(corpus):
    said = zyda_here("check", corpus.write(), "--storage=nosuch://x")
    assert said.returncode == 1
    assert said.stderr.startswith("zyda: --storage: nosuch:// is not a supported kind of URL")


def test_ledger_of_nothing_says_so(corpus):
    said = zyda_here("ledger", corpus.write())
    assert said.returncode == 1
    assert "nothing is published there yet" in said.stderr


def test_explain_says_file_row_cluster_decision_and_difference(corpus, built):
    gone = next(
        row for row in table_of(built, "removed") if row["source"] == "middle" and row["kept_doc_id"] == 0
    )
    said = zyda_here("explain", str(corpus.path), str(gone["doc_id"])).stdout
    assert re.search(r"source middle, file .*in/middle\.jsonl\.gz, row 0", said)
    assert "It was removed by stage removals, reason duplicate" in said
    assert "4 documents" in said
    assert said.count("<- this, removed by deduplication\n") == 1
    assert said.count("<- kept instead of it\n") == 1
    assert said.count("<- removed by deduplication\n") == 1
    assert re.search(r"^-.*edit0", said, re.MULTILINE)


def test_explain_of_a_document_that_stayed_or_was_filtered(corpus, built):
    assert "It is in the corpus." in zyda_here("explain", str(corpus.path), "0").stdout
    filtered = next(row for row in table_of(built, "removed") if row["reason"] == "keep")
    said = zyda_here("explain", str(corpus.path), str(filtered["doc_id"])).stdout
    assert "the recipe's `keep` is not true for it" in said


@pytest.mark.parametrize(
    ("doc_id", "fault"),
    [
        ("x", "'x' is not a document id; expected a number"),
        (str(1 << 64), "is not a document id; expected a number"),
        (str((1 << 54) + 63), "is no document"),
        (str(9 << 54), "no document of this corpus"),
    ],
)
def test_explain_of_an_id_that_is_none(corpus, built, doc_id, fault):
    said = zyda_here("explain", str(corpus.path), doc_id)
    assert said.returncode == 1
    assert fault in said.stderr


def test_every_recipe_of_the_project_loads():
    for path in (REPOSITORY / "recipes").glob("*.yaml"):
        assert load_recipe(str(path)).name == yaml.safe_load(path.read_text())["name"]


NAMED_LIKE_MODULES = ("distributed", "flows", "json", "multiprocessing", "prefect", "pyarrow", "tasks")


def test_files_of_the_folder_that_one_is_in_are_no_code(corpus, terminal):
    """A person goes into the folder of a dataset, which has files of any name, and builds there."""
    folder = corpus.folder / "in"
    for name in NAMED_LIKE_MODULES:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write({name!r})")
    program = [Path(sys.executable).with_name("zyda"), "build", corpus.write()]
    home = {"PREFECT_HOME": "relative"}
    shutil.copytree(terminal()["PREFECT_HOME"], folder / "relative")
    said = subprocess.run(
        program, cwd=folder, env=terminal("other") | home, capture_output=True, text=True, check=False
    )
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
    assert said.returncode == 0, said.stderr
