"""Test `zyda.build` and `zyda.check` in a script, a thread and a notebook; no process remains afterwards."""

import ast
import json
import re
import signal
import subprocess
import sys

import psutil
import pytest
import yaml
from disturbances import family_of
from patience import HANG, wait_for
from small_corpus import REPOSITORY, TOKENIZER, build_here, contents, prose

import zyda_flows as zyda
from zyda_flows.tasks.recipe.loading import load_recipe

pytestmark = [pytest.mark.slow, pytest.mark.early(3)]

# The script has no `if __name__ == "__main__"`, and builds in a thread.
SCRIPT = """
import json, logging, os, signal, sys, threading
import psutil
import zyda_flows as zyda

recipe = json.loads(sys.argv[1])
found = {}

def state():
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    return dict(os.environ), os.getcwd(), handlers, logging.root.handlers[:], logging.root.manager.disable, sys.path[:]

def build():
    corpus = zyda.build(recipe)
    found["tokens"], found["rows"] = corpus.tokens, corpus.documents().count_rows()

before = state()
thread = threading.Thread(target=build)
thread.start()
thread.join()
found["again"] = zyda.build(recipe, quiet=True).tokens
try:
    zyda.build({**recipe, "sources": [{"name": "none", "files": "nothing-*.parquet"}]}, replace=True)
except zyda.BadRecipe as error:
    found["fault"] = str(error)
found["children"] = [child.cmdline() for child in psutil.Process().children(recursive=True)]
found["is_as_before"] = state() == before
print(json.dumps(found))
"""


def start_program(program, *arguments, **more):
    """Start a program in a new process; its output is captured."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **more
    )


def digests_in_folders(corpus):
    """Return the digests of the files in subfolders; other files contain the path of the inputs."""
    return {path: digest for path, digest in contents(corpus.load()).items() if "/" in path}


def test_script_without_a_main_guard_builds_in_a_thread_and_leaves_no_processes(corpus, built_once, terminal):
    process = start_program(SCRIPT, json.dumps(corpus.recipe), cwd=corpus.folder, env=terminal())
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    result = json.loads(output)
    assert result["is_as_before"]
    assert result["children"] == []
    expected = zyda.open(built_once.path)
    assert result["tokens"] == result["again"] == expected.tokens
    assert result["rows"] == expected.documents().count_rows()
    assert digests_in_folders(corpus) == digests_in_folders(built_once) != {}
    assert "source none: no file matches" in result["fault"]
    assert result["fault"].endswith("/nothing-*.parquet")
    lines = errors.splitlines()
    assert lines[0].startswith("dashboard: http://127.0.0.1:")
    assert not [line for line in lines if "Traceback" in line or " | INFO" in line]


BUILD = """
import sys
import zyda_flows as zyda
try:
    print(zyda.build(sys.argv[1]).url)
except KeyboardInterrupt:
    print("interrupted")
    raise
"""


def test_interrupted_builds_leave_no_processes_and_are_resumed(larger, undisturbed, terminal):
    path, environment = larger.write(), terminal()
    folder = load_recipe(path).folder
    for number in (signal.SIGKILL, signal.SIGINT):
        before = len(folder.files("work"))
        process = start_program(BUILD, path, env=environment)
        wait_for(lambda p=process, n=before: len(family_of(p)) > 3 and len(folder.files("work")) > n, process)
        processes = family_of(process)
        process.send_signal(number)
        output, errors = process.communicate(timeout=HANG)
        assert process.returncode == -number
        _, alive = psutil.wait_procs(processes, HANG)
        assert alive == []
        if number == signal.SIGINT:
            assert output == "interrupted\n"
            assert "zyda: interrupted; finished work is kept" in errors
    build_here(load_recipe(path))
    assert contents(load_recipe(path)) == undisturbed


def test_killed_build_process_raises_a_short_error(corpus, terminal, monkeypatch):
    """Only the build process is killed; the program waits for it."""
    process = start_program(BUILD, corpus.write(), env=terminal())
    wait_for(
        lambda: any("build_process" in " ".join(child.cmdline()) for child in family_of(process)), process
    )
    (build_process,) = (child for child in family_of(process) if "build_process" in " ".join(child.cmdline()))
    build_process.kill()
    output, errors = process.communicate(timeout=HANG)
    assert (process.returncode, output) == (1, "")
    assert errors.splitlines()[-1].endswith("BuildStopped: the process of the build ended by signal 9")


def test_check_returns_the_inputs_of_a_build(corpus):
    checked = zyda.check(corpus.write())
    assert [(source.name, source.files, source.new_files) for source in checked.sources] == [
        ("best", 2, 2), ("middle", 1, 1), ("worst", 2, 2),
    ]  # fmt: skip
    files = [*corpus.folder.glob("in/best-*.parquet")]
    assert checked.sources[0].size == sum(file.stat().st_size for file in files)
    assert checked.sources[0].rows == 6
    assert (checked.tokenizer, checked.is_complete) == (str(TOKENIZER), False)
    assert checked.url == f"{corpus.folder}/out/small/published"
    with pytest.raises(zyda.BadRecipe) as error:
        zyda.check(
            corpus.write(tokenizer="nobody/nothing", sources=[{"name": "a", "files": "in/none-*.parquet"}])
        )
    assert len(error.value.faults) == 2
    with pytest.raises(
        zyda.BadRecipe, match=r"recipe: expected str, bytes or os\.PathLike object, not object"
    ):
        zyda.check({"name": object()})


BLOCKS = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs/python.md").read_text(), re.DOTALL)


def test_code_blocks_of_the_page_run(tmp_path, monkeypatch, compiled, capsys):
    """The corpus is built before the blocks run, so that they do not build it."""
    manual = [{"name": f"n{i}", "text": prose(f"n{i}")} for i in range(4)]
    mirror = [{"stars": i, "text": f"{row['text']} mirrored"} for i, row in enumerate(manual)]
    for name, lines in {"manual": manual, "mirror": mirror}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    monkeypatch.chdir(tmp_path)
    recipe = ast.literal_eval(BLOCKS[1].partition("zyda.build(")[2].rpartition(")")[0].strip().replace(
        '"tokenizer": tokenizer', f'"tokenizer": "{TOKENIZER}"'))  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    build_here(load_recipe("recipe.yaml"))
    names = {"tokenizer": str(TOKENIZER)}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"docs/python.md, block {number}", "exec"), names)
    printed = capsys.readouterr()
    assert printed.err.count("nothing to do: the corpus is complete") == 2
    assert "near-duplicate of a preferred document" in printed.out
    assert "'sample: expected at most 1 (found 2.0)'" in printed.out


def test_notebook_runs_and_leaves_no_processes(tmp_path, terminal, monkeypatch, compiled):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for name, value in {**terminal(), "TMPDIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(REPOSITORY / "examples/first_corpus.ipynb", nbformat.NO_CONVERT)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]
    children_before = {child.pid for child in psutil.Process().children(recursive=True)}
    client = nbclient.NotebookClient(notebook, timeout=HANG, kernel_name="python3")
    client.create_kernel_manager().transport = "ipc"
    client.execute()
    output = {
        cell.source.splitlines()[-1]: str(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"
    }
    assert "<corpus first: " in output["corpus"]
    assert "\\x1b" not in output["corpus"]
    assert "-Mirrored." in output['print("\\n".join(explanation.diff))']
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= children_before
