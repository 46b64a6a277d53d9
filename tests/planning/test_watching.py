"""Test how the watcher detects and announces changed sources."""

import time

from small_corpus import build_here, prose, rows, write_rows

from zyda_flows.tasks.planning.last_build import DENY_LISTS
from zyda_flows.tasks.planning.watching import PATIENCE, WATCHED, detect_changes, last_poll
from zyda_flows.tasks.storage.records import write_record


def test_new_files_are_announced_at_the_second_poll(corpus):
    recipe = corpus.load()
    first, second, third = (detect_changes.fn(recipe) for _ in range(3))
    assert {change.source for change in first.changes} == {"best", "middle", "worst"}
    assert [poll.is_to_announce for poll in (first, second, third)] == [False, True, False]


def test_no_changes_are_reported_after_a_build(corpus):
    recipe = corpus.load()
    build_here(recipe)
    assert detect_changes.fn(recipe).changes == ()
    assert not detect_changes.fn(recipe).is_to_announce


def test_added_changed_and_removed_files_are_distinguished(corpus):
    recipe = corpus.load()
    build_here(recipe)
    write_rows(corpus.folder / "in/best-2.parquet", rows(new=prose("new")))
    write_rows(corpus.folder / "in/middle.jsonl.gz", rows(only=prose("only")))
    (corpus.folder / "in/best-1.parquet").unlink()
    best, middle = detect_changes.fn(recipe).changes
    assert [url.rpartition("/")[2] for url in best.added] == ["best-2.parquet"]
    assert [url.rpartition("/")[2] for url in best.removed] == ["best-1.parquet"]
    assert [url.rpartition("/")[2] for url in middle.changed] == ["middle.jsonl.gz"]
    build_here(recipe)
    assert detect_changes.fn(recipe).changes == ()


def test_growing_listing_is_not_announced(corpus):
    recipe = corpus.load()
    build_here(recipe)
    for i in range(3):
        write_rows(corpus.folder / f"in/best-{i + 2}.parquet", rows(**{f"n{i}": prose(f"n{i}")}))
        assert not detect_changes.fn(recipe).is_to_announce
    assert detect_changes.fn(recipe).is_to_announce
    assert not detect_changes.fn(recipe).is_to_announce


def test_announced_listing_without_a_build_is_announced_again(corpus):
    recipe = corpus.load()
    polls = [detect_changes.fn(recipe) for _ in range(2)]
    long_ago = last_poll(recipe.folder).model_copy(update={"announced_at": time.time() - PATIENCE - 1})
    write_record(recipe.folder, WATCHED, long_ago)
    polls.append(detect_changes.fn(recipe))
    assert [poll.is_unanswered for poll in polls] == [False, False, True]
    build_here(recipe)
    assert not detect_changes.fn(recipe).is_unanswered


def test_source_removed_from_the_recipe_is_a_change(corpus):
    build_here(corpus.load())
    fewer = corpus.load(sources=corpus.recipe["sources"][:2])
    (change,) = detect_changes.fn(fewer).changes
    assert (change.source, len(change.removed)) == ("worst", 2)


def test_changed_deny_list_is_a_change(corpus):
    (corpus.folder / "asked.txt").write_text("example.org")
    recipe = corpus.load(deny="asked.txt")
    build_here(recipe)
    assert detect_changes.fn(recipe).changes == ()
    (corpus.folder / "asked.txt").write_text("example.org\nexample.net")
    (change,) = detect_changes.fn(recipe).changes
    assert change.source == DENY_LISTS
    assert [url.rpartition("/")[2] for url in change.changed] == ["asked.txt"]
