"""Test that control sequences in documents, paths and recipes are printed as inert text."""

import io
import re

import pytest
from small_corpus import Corpus, build_here, edited, prose, rows, table_of, write_rows, zyda_here

from zyda_flows.flows.command import terminal
from zyda_flows.flows.command.inert_console import InertConsole
from zyda_flows.flows.command.inert_text import inert

# Set the title, erase, hide text, write the clipboard, overwrite a line, reverse the direction, C1 controls.
HOSTILE = "\x1b]0;owned\x07 \x1b[2J \x1b[8mhidden \x1b]52;c;cm0gLXJm\x07 a\rb \x08 \x9b31m \u202egnihton\u202c \x00\x7f"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def test_only_control_characters_are_replaced():
    characters = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    shown = inert(characters)
    assert len(shown) == len(characters)
    assert not CONTROL.search(shown)
    assert all(a == b for a, b in zip(characters, shown, strict=True) if not CONTROL.match(a))
    assert inert("half \ud800 a character") == "half ? a character"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_console_prints_only_its_own_styles(is_terminal):
    out = io.StringIO()
    InertConsole(
        file=out, force_terminal=is_terminal, color_system="standard" if is_terminal else None, width=300
    ).print(f"[bold red]{HOSTILE}[/]", soft_wrap=True)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert not CONTROL.search(shown)
    assert "\u241b]52;c;cm0gLXJm" in shown
    assert ("\x1b[1;31m" in out.getvalue()) is is_terminal


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, compiled):
    """Return a corpus whose texts and file names contain control sequences."""
    corpus = Corpus(tmp_path_factory.mktemp("hostile"))
    text = f"{HOSTILE} {prose('hostile')} {HOSTILE}"
    write_rows(corpus.folder / "in/best-\x1b[31m.parquet", rows(evil=text))
    write_rows(corpus.folder / "in/worst-9\x1b[2J.jsonl.zst", rows(copy=edited(text)))
    build_here(corpus.load())
    return corpus


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["explain", "find", "audit", "check", "ledger", "report", "status", "verify", "bad"]
)
def test_commands_print_no_control_sequences_of_a_corpus(hostile, command):
    path, more = hostile.write(), []
    if command == "explain":
        ids = [row["doc_id"] for row in table_of(hostile.load(), "removed") if row["source"] == "worst"]
        more = [str(max(ids))]  # the row of the last file
    if command == "find":
        more = [f"{HOSTILE} {prose('hostile')} {HOSTILE}"[:-1].replace("\x00", "")]
    if command == "bad":  # in error messages
        write_rows(hostile.folder / "in/\x1b[2J.jsonl", [{"text": HOSTILE}, {"no": "text"}])
        sources = [{"name": "best", "files": "in/*.jsonl", "keep": f"text = '\x1b[2J{HOSTILE[:-2]}'"}]
        path = hostile.write(name="bad", sources=sources)
    completed = zyda_here("check" if command == "bad" else command, path, *more)
    assert completed.stdout + completed.stderr
    assert not CONTROL.search(completed.stdout + completed.stderr), repr(completed)
    if command in ("explain", "find", "bad"):
        assert "\u241b[" in completed.stdout + completed.stderr


def test_table_too_wide_for_the_terminal_is_printed_as_a_list():
    columns = ("part", "documents", "unique tokens", "copied in an epoch", "target", "tokens", "share")
    table = terminal.table_of(*columns, words=["part"], title="The parts")
    table.add_row("web", "1,234,567", "12,345,678,901", "0", "12,345,678", "12,345,678", "43.21%")
    shown = {}
    for width in (60, 120):
        out = io.StringIO()
        InertConsole(file=out, width=width).print(table)
        shown[width] = out.getvalue()
        assert max(map(len, out.getvalue().splitlines())) <= width
        assert all(cell in out.getvalue() for column in table.columns for cell in column.cells)
    assert shown[60].splitlines()[:4] == [
        "The parts", "web", "  documents: 1,234,567", "  unique tokens: 12,345,678,901",
    ]  # fmt: skip
    assert "┃" in shown[120]
