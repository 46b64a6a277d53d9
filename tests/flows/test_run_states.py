"""Messages of run states: they summarise the run, and problems come first."""

import ast
from pathlib import Path
from uuid import uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed
from prefect.types._datetime import now
from small_corpus import build_here, rows, write_rows

from zyda_flows import flows
from zyda_flows.flows.build import outcome
from zyda_flows.flows.command.server_runs import outcome_line
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.accounts.ledger_summary import large_losses


def test_message_begins_with_a_source_without_remaining_documents(corpus):
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


def test_status_shows_losses_of_completed_builds():
    def line(message):
        state = Completed(message=message)
        return outcome_line(
            FlowRun(flow_id=uuid4(), name="build x", state=state, state_type=state.type, end_time=now("UTC"))
        )

    assert line("🔴 nothing is left of source a.").endswith("build x: 🔴 nothing is left of source a.")
    assert line("5 documents are published in /x.").endswith("build x")


def test_every_flow_ends_with_a_message():
    """Checks the source: each flow returns the state of its run."""
    flow_names = set()
    for path in Path(flows.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(
                "flow(" in ast.unparse(child) for child in node.decorator_list
            ):
                flow_names.add(node.name)
                returned = [
                    ast.unparse(child.value) for child in ast.walk(node) if isinstance(child, ast.Return)
                ]
                assert returned
                assert all(
                    end.startswith(("completed_state(", "logged(", "as_failed(")) for end in returned
                ), path
    assert flow_names == {
        "ablate",
        "build",
        "explain_removals",
        "mix",
        "report",
        "export",
        "push",
        "watch",
        "try_bandings",
    }


@pytest.mark.slow
def test_call_of_a_flow_returns_its_value_and_sets_the_message(server):
    @flow(persist_result=False)
    def counting():
        return completed_state([1, 2], "two numbers were counted.", "no more.")

    assert counting() == [1, 2]
    state = counting(return_state=True)
    assert (state.name, state.message) == ("Completed", "two numbers were counted. no more.")
    assert completed_state([1], "without a run") == [1]


@pytest.mark.slow
def test_all_states_of_a_run_have_a_message(server):
    @flow(persist_result=False)
    def silent():
        return 1

    state = silent(return_state=True)
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(state.state_details.flow_run_id)
        states = client.read_flow_run_states(run.id)
    assert run.state.message == "It ended well."
    assert {past.name: past.message for past in states} == {
        "Pending": "It is about to begin.",
        "Running": "It is running; its artifacts show its progress.",
        "Completed": "It ended well.",
    }
