"""Test stored judgements of `zyda look`, their rates, and the marked differences of long texts."""

import pytest

from zyda_flows.tasks.accounts.intervals import wilson
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.lookup.judgements import (
    Judgement,
    Review,
    load_reviews,
    rates_of,
    read_judgements,
    save_review,
)
from zyda_flows.tasks.lookup.samples import SampleOptions
from zyda_flows.tasks.publish.differences import side_by_side


def test_long_texts_are_cut_with_a_note():
    text = "same " * 9000
    left, right = side_by_side(f"{text}here {text}", f"{text}there {text}")
    assert "the first" in left[0].text
    assert left[-1].text == right[-1].text == " …"
    assert [span.text for span in left if not span.is_same] == ["here"] or any(
        "here" in span.text for span in left
    )


def review_of(right, wrong, who="ann", **fields):
    base = {
        "source": "best",
        "stage": "removals",
        "reason": "duplicate",
        "at": "2026-01-01T00:00:00Z",
    } | fields
    judgements = [Judgement(doc_id=i, is_right=i < right, **base) for i in range(right + wrong)]
    return Review(
        who=who, began="2026-01-01T00:00:00Z", options=SampleOptions(), judgements=tuple(judgements)
    )


def test_rates_have_wilson_intervals_and_use_the_latest_judgement():
    (source_rate, total_rate) = rates_of([review_of(8, 2)])
    assert (source_rate.right, source_rate.judged, source_rate.share) == (8, 10, 0.8)
    # R: prop.test(8, 10, correct = FALSE)
    assert source_rate.interval == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert total_rate.source == "all"
    later = review_of(10, 0)
    assert rates_of([review_of(8, 2), later])[1].right == 10
    assert rates_of([review_of(8, 2), review_of(8, 2, who="ben")])[1].judged == 20
    assert wilson(0, 5)[0] == 0.0
    assert wilson(5, 5)[1] == 1.0


def test_judgements_are_stored_without_texts_and_damaged_files_are_skipped(corpus, caplog):
    folder = corpus.load().folder.folder("elsewhere")
    save_review(folder, review_of(3, 1))
    save_review(folder, review_of(1, 1, who="../../ben"))
    assert all(path.startswith("looked/2026") and path.count("/") == 1 for path in folder.files("looked"))
    assert [review.who for review in load_reviews(folder)] == ["../../ben", "ann"]
    path = folder.files("looked")[1]
    folder.write(path, folder.read(path).replace(b'"is_right":true', b'"is_right":false', 1))
    assert [review.who for review in load_reviews(folder)] == ["../../ben"]
    assert "is cut or changed" in caplog.text
    for content in (b"", b"{}", b'{"who": 1}', b"[]", b'{"who":"a","began":"b","options":{},"more":1}'):
        with pytest.raises(BadInput, match="expected a file that a page of zyda look"):
            read_judgements(content)
