"""States of runs: their messages say what a run did, and what a person has to look at comes first."""

import ast
from pathlib import Path

import pytest
from prefect import flow
from small_corpus import build_here, rows, write_rows

import flows
from flows.build import outcome
from flows.server.run_states import completed
from tasks.accounts.ledger import large_losses


def test_a_source_that_rules_empty_is_the_first_sentence(corpus):
    shouting = {f"loud{i}": f"SHOUTING {i} IS NOT PROSE, " * 30 for i in range(3)}
    write_rows(corpus.folder / "in/loud.jsonl", rows(**shouting))
    corpus.recipe["sources"].append(
        {"name": "loud", "files": "in/loud.jsonl", "documents": [{"filter": {"gopher-quality": {}}}]}
    )
    recipe = corpus.load()
    ledger = build_here(recipe)
    losses = [loss for loss in large_losses(ledger) if "source loud" in loss]
    assert losses == ["nothing is left of source loud: rules removed 100.0% of its tokens"]
    first, *_, last = outcome(recipe, ledger)
    assert first == f"🔴 {losses[0]}."
    assert last == f"{ledger.of('publish').sentence()} are published in {recipe.folder.url}/published."


def test_every_flow_ends_with_a_message():
    """As each flow is written: what it returns is the state of its run."""
    seen = set()
    for path in Path(flows.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(
                "flow(" in ast.unparse(one) for one in node.decorator_list
            ):
                seen.add(node.name)
                ends = [ast.unparse(one.value) for one in ast.walk(node) if isinstance(one, ast.Return)]
                assert ends
                assert all(end.startswith(("completed(", "told(", "as_failed(")) for end in ends), path
    assert seen == {"build", "mix", "report", "export", "push", "watch", "try_bandings"}


@pytest.mark.slow
def test_who_calls_a_flow_gets_its_value_and_the_server_its_message(server):
    @flow(persist_result=False)
    def counting():
        return completed([1, 2], "two numbers were counted.", "no more.")

    assert counting() == [1, 2]
    state = counting(return_state=True)
    assert (state.name, state.message) == ("Completed", "two numbers were counted. no more.")
    assert completed([1], "without a run") == [1]
