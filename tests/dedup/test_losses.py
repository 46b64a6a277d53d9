"""Builds stop before they publish if a source loses more than `max_loss`."""

import pytest
from disturbances import using
from small_corpus import build_here, table_of, zyda

from zyda_flows.tasks.accounts.ledger_summary import large_losses
from zyda_flows.tasks.dedup.losses import check_losses
from zyda_flows.tasks.errors import TooMuchLost
from zyda_flows.tasks.storage.artifacts import Receipt
from zyda_flows.tasks.storage.counts import Counts


def receipt_of(stage, entering, lost):
    counts = {
        "entering": Counts(tokens=entering),
        "out": Counts(tokens=entering - lost),
        "set_aside": Counts(),
    }
    return Receipt(
        stage=stage, source="worst", key="", path="", identity="", removed=Counts(tokens=lost), **counts
    )


def trail_with_losses(lost):
    """Return the trail of a group of a single source, which loses some of its 100 tokens."""
    return [[[receipt_of("ingest", 100, 0)], [receipt_of("removals", 100, lost)]]]


def test_max_loss_is_compared_exactly(corpus):
    for share in (0.07, 0.14, 0.28, 0.29, 0.55, 0.56, 0.57, 0.58):
        recipe, lost = corpus.load(max_loss=share), round(100 * share)
        check_losses.fn(recipe, trail_with_losses(lost))
        with pytest.raises(TooMuchLost, match=rf"{lost + 1} of its 100 tokens .* max_loss is {share}"):
            check_losses.fn(recipe, trail_with_losses(lost + 1))


@pytest.mark.parametrize(
    ("max_loss", "said"),
    [
        (0.2, "the rules would remove 30 of its 100 tokens (30.0%), but max_loss is 0.2"),
        (0.39, "the filter would remove 28 of its 70 tokens (40.0%), but max_loss is 0.39"),
        ({"rules": 0.3, "filter": 0.1, "dedup": 0}, "the filter would remove 28 of its 70 tokens"),
        (0.4, None),
        ({"dedup": 0}, None),
        (None, None),
    ],
)
def test_losses_of_rules_and_filters_are_shares_of_remaining_tokens(corpus, max_loss, said):
    recipe = corpus.load(max_loss=max_loss)
    trail = [[[receipt_of("ingest", 100, 0)], [receipt_of("rules", 100, 30)], [receipt_of("filter", 70, 28)]]]
    if said is None:
        check_losses.fn(recipe, trail)
        return
    with pytest.raises(TooMuchLost) as caught:
        check_losses.fn(recipe, trail)
    assert str(caught.value).startswith(f"source worst: {said}")


def test_build_whose_filter_removes_too_much_publishes_nothing(corpus):
    corpus.recipe["sources"][0]["keep"] = "stars > 99"
    with pytest.raises(
        TooMuchLost, match=r"source best: the filter would remove .* \(100.0%\), but max_loss is 0.9"
    ):
        build_here(corpus.load(max_loss=0.9))
    assert corpus.load().folder.files("published") == []
    ledger = build_here(corpus.load())
    assert large_losses(ledger)[0] == ("nothing is left of source best: filter removed 100.0% of its tokens")


def test_build_that_loses_too_much_stops_before_it_publishes(corpus):
    recipe = corpus.load(max_loss=0.3)
    with pytest.raises(TooMuchLost) as caught:
        build_here(recipe)
    said = str(caught.value)
    assert "source worst: deduplication would remove" in said
    assert "but max_loss is 0.3; nothing new is published" in said
    assert "best" not in said
    assert recipe.folder.files("published") == []
    corpus.recipe["sources"][2]["max_loss"] = 0.9
    corpus.recipe["sources"][1]["max_loss"] = 0.9
    build_here(corpus.load(max_loss=0.3))
    written = {row["source"] for row in table_of(recipe, "removed")}
    assert "worst" in written


def test_loss_is_a_one_line_error(corpus, server, cluster):
    path = corpus.write(max_loss=0.1)
    ended = zyda("build", path, env=using(server, DASK_SCHEDULER_ADDRESS=cluster.scheduler_address))
    assert ended.returncode == 1
    (line,) = (line for line in ended.stderr.splitlines() if "max_loss" in line)
    assert line.startswith("zyda: source middle: deduplication would remove")
    assert "Traceback" not in ended.stderr
