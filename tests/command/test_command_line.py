"""Test the command line: help, completion, exit status, error messages, and the output of `explain`."""

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
    completed = zyda("--help")
    assert completed.returncode == 0
    names = re.findall(r"^│ ([a-z][a-z-]*)  ", completed.stdout, re.MULTILINE)
    assert names == NAMES
    assert len(re.findall("^╭─ (?!Options)", completed.stdout, re.MULTILINE)) == 7


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", NAMES)
def test_help_wraps_only_at_the_width_of_the_terminal(command, columns, monkeypatch, capsys):
    """A line may be shorter only at the end of a paragraph: the next word would not fit."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.argv", ["zyda", command, "--help"])
    assert main() == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) == columns
    prose, _, examples = output.partition("For example:")
    above = prose.partition("╭─")[0].strip("\n ").splitlines()
    for line, following in pairwise(line.strip() for line in above):
        word = following.split(" ")[0]
        assert not line or not word or len(line) + 1 + len(word) > columns - 2, (line, following)
    for example in examples.strip().splitlines():
        assert "zyda " in example


def test_version_imports_no_large_library():
    code = (
        "import sys; sys.argv[1:] = ['--version']; from zyda_flows.__main__ import main\n"
        "try: main()\n"
        "finally: print({'prefect', 'dask', 'numpy', 'pyarrow', 'rich'} & sys.modules.keys())"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout) == (0, "zyda-flows 0.1.0\nset()\n")


def test_program_exits_before_python_destroys_objects():
    """Threads of libraries may still use the objects. Functions registered with atexit run."""
    code = (
        "import atexit; from zyda_flows.__main__ import End\n"
        "class Held:\n"
        "    def __del__(self): print('taken apart')\n"
        "held = Held()\n"
        "atexit.register(End(3))\n"
        "atexit.register(print, 'at the end')"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout) == (3, "at the end\n")


def test_closed_output_gives_no_traceback(tmp_path):
    program = f"{sys.executable} -m zyda_flows params --threshold 0.8"
    for line in (f"{program} >&-", f"{program} | true"):
        completed = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert completed.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_on_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        program = [sys.executable, "-m", "zyda_flows", "params", "--threshold", "0.8"]
        completed = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert completed.returncode == 1
    assert completed.stderr == "zyda: the output, or a file of this machine: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["build", "--odd"], "zyda: No such option: --odd (see zyda build --help)"),
        (["find"], "zyda: Missing argument 'RECIPE' (see zyda find --help)"),
        (["biuld"], "zyda: No such command 'biuld'. Did you mean 'build'? (see zyda --help)"),
        (
            ["mix", "a.yaml", "--format", "xml"],
            "zyda: Invalid value for '--format': 'xml' is not one of 'text', 'json' (see zyda mix --help)",
        ),
    ],
)
def test_invalid_command_line_is_one_line_with_the_command_for_help(monkeypatch, capfd, arguments, expected):
    from zyda_flows.flows.command import cli

    monkeypatch.setattr("sys.argv", ["zyda", *arguments])
    assert cli.main() == 2
    assert capfd.readouterr().err == f"{expected}\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_unwritable_local_file_is_one_line(monkeypatch, capfd, number):
    from zyda_flows.flows.command import cli

    def fail(**_):
        raise OSError(number, os.strerror(number), "/data/report.html")

    monkeypatch.setattr(cli, "app", fail)
    assert cli.main() == 1
    assert capfd.readouterr().err == f"zyda: /data/report.html: {os.strerror(number)}\n"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("zyda expl", ["explain"]),
        ("zyda build rec", ["recipes/a.yaml", "recipes/b.yml"]),
        ("zyda watch recipes/b", ["recipes/b.yml"]),
        ("zyda check recipes/odd[", ["recipes/odd[1].yaml"]),
        ("zyda status nothing", [""]),
    ],
)
def test_shell_completes_commands_and_recipes(tmp_path, line, offered):
    (tmp_path / "recipes").mkdir()
    for name in ("a.yaml", "b.yml", "c.txt", *(["odd[1].yaml"] if "odd" in line else [])):
        (tmp_path / "recipes" / name).touch()
    completion = {"_ZYDA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    completed = zyda(cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY), **completion})
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.removesuffix("\n").split("\n") == offered


def test_completion_script_is_printed():
    completed = zyda("--show-completion", "bash")
    assert "complete -o default -F _zyda_completion zyda" in completed.stdout


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
KEPT_HINT = "; finished work is kept; start the build again to continue"
STARTED_HINT = "; what has been started runs on; zyda up starts the rest, zyda down ends it"


@pytest.mark.parametrize(
    ("command", "module", "hint"),
    [
        ("build RECIPE", "typer", KEPT_HINT),
        ("build RECIPE", "pyarrow", KEPT_HINT),
        ("build RECIPE", "prefect", KEPT_HINT),
        ("build RECIPE", "zyda_flows.flows.build", KEPT_HINT),
        ("up", "zyda_flows.deployments.local", STARTED_HINT),
        ("try RECIPE", "zyda_flows.tasks.planning.try_rules", ""),
        ("check RECIPE", "zyda_flows.tasks.planning.prepare", ""),
        ("report RECIPE", "matplotlib", ""),
        ("verify RECIPE", "yaml", ""),
        ("params", "numpy", ""),
    ],
)
def test_interrupt_during_imports_is_one_line(corpus, command, module, hint, terminal):
    code = INTERRUPTED.replace("AT", repr(module))
    arguments = command.replace("RECIPE", corpus.write()).split()
    completed = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, env=terminal(),
        cwd=REPOSITORY,
    )  # fmt: skip
    lines = [line for line in completed.stderr.splitlines(keepends=True) if not line.startswith("dashboard")]
    assert (completed.returncode, lines) == (130, [f"zyda: interrupted{hint}\n"])


def test_interrupt_of_a_running_command_is_one_line(corpus):
    process = subprocess.Popen(
        [*COMMAND, "find", corpus.write(), "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    # The text is larger than the pipe, so write returns only after the command reads its input.
    process.stdin.write("more than a pipe holds, " * 10_000)
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "zyda: interrupted\n")
    assert process.returncode == 130


@pytest.mark.parametrize("command", ["build", "ledger"])
def test_fault_in_a_recipe_is_one_line_and_exit_status_1(corpus, command):
    path = corpus.write(dedup={"bands": 7})
    completed = zyda(command, path)
    assert completed.returncode == 1
    assert re.fullmatch(
        r"zyda: .*recipe\.yaml:\d+: dedup: values \(128\) must be bands x rows .*\n", completed.stderr
    )


def test_faults_in_the_input_are_lines_and_exit_status_1(corpus, tmp_path, server):
    sources = [
        {"name": "a", "files": "in/nothing*"},
        {"name": "b", "files": "in/best-*.parquet", "text": "body"},
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    completed = zyda(
        "build", corpus.write(sources=sources), env={**environment, "PREFECT_HOME": str(tmp_path / "home")}
    )
    assert completed.returncode == 1
    first, *others = completed.stderr.splitlines()  # no server is needed
    assert re.fullmatch(r"zyda: \S+recipe\.yaml:\d+: source a: no file matches .*nothing\*", first)
    assert [": source b, file " in line and "no column 'body'" in line for line in others] == [True, True]
    second = zyda("build", corpus.write(sources=sources[1:]), env={**os.environ, "PREFECT_API_URL": server})
    assert len(re.findall(r"^zyda: \S+: source b, file .*no column 'body'", second.stderr, re.MULTILINE)) == 2


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


def test_invalid_sample_is_refused(corpus):
    for sample in ("0", "1.5", "nan", "-1"):
        completed = zyda("build", corpus.write(), f"--sample={sample}")
        assert completed.returncode == 2
        assert "is not a share of the input" in completed.stderr


def test_fault_of_an_option_names_the_option(corpus):
    completed = zyda_here("check", corpus.write(), "--storage=nosuch://x")
    assert completed.returncode == 1
    assert completed.stderr.startswith("zyda: --storage: nosuch:// is not a supported kind of URL")


def test_ledger_of_an_unpublished_corpus_fails(corpus):
    completed = zyda_here("ledger", corpus.write())
    assert completed.returncode == 1
    assert "nothing is published there yet" in completed.stderr


def test_explain_shows_file_row_cluster_decision_and_difference(corpus, built):
    removed = next(
        row for row in table_of(built, "removed") if row["source"] == "middle" and row["kept_doc_id"] == 0
    )
    output = zyda_here("explain", str(corpus.path), str(removed["doc_id"])).stdout
    assert re.search(r"source middle, file .*in/middle\.jsonl\.gz, row 0", output)
    assert "It was removed by stage removals, reason duplicate" in output
    assert "4 documents" in output
    assert output.count("<- this, removed by deduplication\n") == 1
    assert output.count("<- kept instead of it\n") == 1
    assert output.count("<- removed by deduplication\n") == 1
    assert re.search(r"^-.*edit0", output, re.MULTILINE)


def test_explain_of_kept_and_filtered_documents(corpus, built):
    assert "It is in the corpus." in zyda_here("explain", str(corpus.path), "0").stdout
    filtered = next(row for row in table_of(built, "removed") if row["reason"] == "keep")
    output = zyda_here("explain", str(corpus.path), str(filtered["doc_id"])).stdout
    assert "the recipe's `keep` is not true for it" in output


@pytest.mark.parametrize(
    ("doc_id", "fault"),
    [
        ("x", "'x' is not a document id; expected a number"),
        (str(1 << 64), "is not a document id; expected a number"),
        (str((1 << 54) + 63), "is no document"),
        (str(9 << 54), "no document of this corpus"),
    ],
)
def test_explain_of_an_unknown_id_fails(corpus, built, doc_id, fault):
    completed = zyda_here("explain", str(corpus.path), doc_id)
    assert completed.returncode == 1
    assert fault in completed.stderr


def test_every_recipe_of_the_project_loads():
    for path in (REPOSITORY / "recipes").glob("*.yaml"):
        assert load_recipe(str(path)).name == yaml.safe_load(path.read_text())["name"]


NAMED_LIKE_MODULES = ("distributed", "flows", "json", "multiprocessing", "prefect", "pyarrow", "tasks")


def test_files_of_the_working_directory_are_not_imported(corpus, terminal):
    """A user may build in the folder of a dataset, whose files can have names of modules."""
    folder = corpus.folder / "in"
    corpus.recipe["sources"] = corpus.recipe["sources"][:1]  # all processes start for one source, too
    for name in NAMED_LIKE_MODULES:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write({name!r})")
    program = [Path(sys.executable).with_name("zyda"), "build", corpus.write()]
    home = {"PREFECT_HOME": "relative"}
    shutil.copytree(terminal()["PREFECT_HOME"], folder / "relative")
    completed = subprocess.run(
        program, cwd=folder, env=terminal("other") | home, capture_output=True, text=True, check=False
    )
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
    assert completed.returncode == 0, completed.stderr
