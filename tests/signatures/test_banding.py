"""Bands and rows for a threshold: errors equal another integration, and the command prints them."""

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.integrate import quad
from small_corpus import zyda_here

from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.banding import Banding, bandings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("bands", "rows", "threshold"), [(8, 16, 0.85), (32, 4, 0.4), (26, 11, 0.7), (256, 4, 0.3)]
)
def test_errors_equal_the_areas_beside_the_curve(bands, rows, threshold):
    banding = Banding(bands, rows, threshold)
    below, _ = quad(lambda s: 1 - (1 - s**rows) ** bands, 0, threshold)
    above, _ = quad(lambda s: (1 - s**rows) ** bands, threshold, 1)
    assert banding.false_positives == pytest.approx(below, abs=1e-9)
    assert banding.false_negatives == pytest.approx(above, abs=1e-9)
    assert banding.find_probability(np.array([banding.half]))[0] == pytest.approx(0.5)


def test_errors_of_zyda_1_equal_its_paper():
    """The paper gives the errors to a tenth of a per cent, integrated in steps."""
    coarse, fine = Banding(32, 4, 0.4), Banding(9, 13, 0.8)
    assert coarse.false_positives == pytest.approx(0.054, abs=0.002)
    assert coarse.false_negatives == pytest.approx(0.034, abs=0.002)
    assert (round(fine.false_positives, 3), round(fine.false_negatives, 3)) == (0.025, 0.033)


@pytest.mark.parametrize(("threshold", "values"), [(0.8, 128), (0.4, 128), (0.6, 40)])
def test_best_banding_has_the_fewest_errors(threshold, values):
    everything = [
        Banding(bands, rows, threshold)
        for bands in range(1, values + 1)
        for rows in range(1, values // bands + 1)
        if bands * rows > 1
    ]
    for weights in ((1, 1), (3, 1), (0, 1)):
        best = bandings(threshold, values, *weights)[0]
        assert best.errors(*weights) == min(banding.errors(*weights) for banding in everything)


def test_params_are_printed_with_the_curve_and_drawn(tmp_path):
    said = zyda_here("params", "--threshold", "0.8", "--picture", str(tmp_path / "curve.svg"))
    assert said.returncode == 0, said.stderr
    assert "dedup: {bands: 9, rows: 13}" in said.stdout
    assert "2.5%" in said.stdout
    assert said.stdout.count("<- threshold") == 1
    assert (tmp_path / "curve.svg").read_text().startswith("<svg")
    first = said.stdout.splitlines()[0]
    assert first.startswith(
        f"9 bands of 13 rows find {1 - (1 - 0.8**13) ** 9:.1%} of the pairs at a similarity of 0.8, "
    )
    weighted = zyda_here("params", "--threshold", "0.8", "--fp-weight", "9")
    assert "weighted sum" in weighted.stdout
    assert "dedup: {bands: 9, rows: 13}" not in weighted.stdout
    assert zyda_here("params", "--fp-weight", "0", "--fn-weight", "0").stderr.startswith(
        "zyda: --fp-weight 0"
    )
    said = zyda_here("params", "--picture", str(tmp_path / "nowhere/curve.svg"))
    assert said.returncode == 1
    assert said.stderr.startswith("zyda: ")
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (128, 8, 16)),
        ({"values": 64}, (64, 8, 8)),
        ({"bands": 32}, (128, 32, 4)),
        ({"bands": 14, "rows": 8}, (112, 14, 8)),
        ({"rows": 4, "values": 100}, (100, 25, 4)),
        ({"bands": 9, "rows": 13, "values": 117}, (117, 9, 13)),
    ],
)
def test_two_of_values_bands_and_rows_determine_the_third(given, expected):
    dedup = MinHashRound(**given)
    assert (dedup.values, dedup.bands, dedup.rows) == expected
    assert MinHashRound(**dedup.model_dump()) == dedup


@pytest.mark.parametrize(
    "given",
    [
        {"bands": 9},
        {"values": 100},
        {"bands": 9, "rows": 13, "values": 128},
        {"bands": 0},
        {"rows": 0},
        {"bands": 300, "rows": 2},
        {"bands": 200, "rows": 9},
        {"values": 1},
        {"values": True},
        {"rows": "many"},
    ],
)
def test_values_that_do_not_match_bands_and_rows_raise(given):
    with pytest.raises(ValidationError):
        MinHashRound(**given)
