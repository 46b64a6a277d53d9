"""The README and the pages of docs/: every command in them runs, and there is no other."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir

import pytest
from small_corpus import REPOSITORY, STEPS, TOKENIZER, Corpus, prose, zyda_here
from small_mixtures import mixture_file
from stand_in_hub import StandInHub

from zyda_flows.tasks import pipeline

pytestmark = [pytest.mark.early(1), pytest.mark.xdist_group("stack")]

PAGES = ("README.md", "docs/first-corpus.md", "docs/recipe.md", "docs/operations.md")
README = "\n".join((REPOSITORY / page).read_text() for page in PAGES)
PROGRAMS = r"(?:zyda|make)"
# In their order: a corpus is built before it is looked into, and what is watched is no longer in the end.
LAST = "zyda watch RECIPE --stop"


def commands():
    """Return the command lines of the pages: in blocks, in the comments there, and in sentences."""
    lines = re.findall(rf"^(?: {{4}})?({PROGRAMS} .*)$", README, re.MULTILINE)
    found = [re.split(r" +#", line)[0].strip() for line in lines]
    found += [said for line in lines for said in re.findall(r"#.*(zyda \w+ RECIPE(?: --\w+)+)", line)]
    found += re.findall(rf"`([^`\n]*\b{PROGRAMS} [^`\n]*)`", README)
    return sorted(dict.fromkeys(found), key=lambda line: line == LAST)


def test_commands_are_found():
    """That a command is overlooked is seen where those are missing that surely are there."""
    found = commands()
    for line in ("make run", "zyda build RECIPE", 'eval "$(zyda up --env)"', "zyda watch --list", LAST):
        assert line in found
    assert len(found) > 25


@pytest.fixture(scope="module")
def terminal_of_a_reader(running_stack, tmp_path_factory):
    """Give a function that runs a line in a shell, where `zyda` is this project's, and returns what it said."""
    folder = tmp_path_factory.mktemp("reader")
    program = folder / "bin/zyda"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m zyda_flows "$@"\n')
    program.chmod(0o755)
    environment = {
        **running_stack,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }

    def run(line, **more):
        program, *arguments = shlex.split(line)
        if program == "zyda" and arguments[0] in WITHOUT_SERVER:
            with chdir(folder):
                return zyda_here(*arguments)
        return subprocess.run(
            ["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False,
            env={**environment, **more},
        )  # fmt: skip

    corpus = Corpus(folder)
    corpus.recipe |= {"documents": STEPS, "name": "readme"}
    corpus.write()
    mixture_file(folder, [corpus], parts=[{"name": "all", "epochs": 1}], budget=...)
    (folder / "text.txt").write_text(prose("best alone"))
    for line in ("zyda up", "zyda build recipe.yaml"):
        said = run(line)
        assert said.returncode == 0, said.stderr
    yield run
    run("zyda watch recipe.yaml --stop")


@pytest.fixture(scope="module")
def hub():
    made = StandInHub()
    yield made
    made.close()


# What they do needs no server, so they run in the process of the tests.
WITHOUT_SERVER = {
    "audit",
    "check",
    "clean",
    "explain",
    "export",
    "find",
    "init",
    "ledger",
    "plan",
    "report",
    "trace",
    "try",
    "verify",
    "--version",
}
WANTS_MORE = r"Missing argument|zyda: give a RECIPE"
STANDS_FOR = {
    "RECIPE": "recipe.yaml",
    "DOC_ID": "0",
    "FILE-OR-TEXT": "text.txt",
    "s3://...": "elsewhere",
    "URL": "copies",
    "OWNER/NAME": "lab/readme",
    "MIXTURE": "mixture.yaml",
    "MIX": "mixed/mixture",
    "POSITION": "7",
    "NAME": "example.org",
    "FOLDER": "packages",
    "FILES-OR-URLS": "in",
    "0.001": "0.5",  # of a dozen documents
}


def as_typed(line):
    """Return a line with real things in the place of what stands for them."""
    for name, real in STANDS_FOR.items():
        line = re.sub(rf"(?<!\S){re.escape(name)}(?!\S)", real, line)
    return line


@pytest.mark.parametrize("line", [line for line in commands() if "zyda " in line])
def test_command_of_the_readme_runs(line, terminal_of_a_reader, hub, tmp_path):
    typed = as_typed(line)
    assert not re.search(r"\b[A-Z]{2,}|\.\.\.", typed), "what stands for what here?"
    more = {}
    if typed == "zyda down":  # not the one that other tests use
        more = {"PREFECT_HOME": str(tmp_path)}
    elif typed.startswith("zyda push "):
        more = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_TOKEN": "hf_write",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "0",
        }
    elif typed.startswith("zyda look "):
        typed += f" --to {tmp_path}/look.html"  # or it serves until somebody ends it
    elif typed.startswith("zyda init "):
        typed += f" --output {tmp_path}/new.yaml --tokenizer {shlex.quote(str(TOKENIZER))}"
    elif typed.startswith("zyda demo "):
        typed += " --documents 20"
    elif typed.startswith("zyda forget "):
        typed += " --yes"  # or it asks
    said = terminal_of_a_reader(typed, **more)
    if re.fullmatch(r"zyda [a-z]+", typed) and re.search(WANTS_MORE, said.stderr):  # a command's name alone
        said = terminal_of_a_reader(f"{typed} --help")
    assert said.returncode == 0, said.stderr
    assert "zyda: " not in said.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("make ")])
def test_target_of_the_readme_is_there(line):
    """They build environments, or do what these tests are part of: make itself says what it would do."""
    said = subprocess.run([*line.split(), "-n"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr


def test_every_command_is_in_the_readme():
    from zyda_flows.flows.command.cli import app

    known = {command.name for command in app.registered_commands}
    assert known
    assert {line.split()[1] for line in commands() if line.startswith("zyda ")} >= known


@pytest.mark.slow
def test_design_shows_the_stages_in_their_order():
    design = (REPOSITORY / "docs/design.md").read_text()
    design = " ".join(design.split())
    assert " -> ".join(["prepare", *pipeline.names()]) in design
    about_corpus = [stage.name for stage in pipeline.stages() if stage.scope == "corpus"]
    assert f"Stages of the whole corpus ({', '.join(about_corpus)}) are one task" in design
