"""Test the measure of growth, which tells linear from quadratic functions."""

import growth
from growth import grows_linearly


def test_linear_and_quadratic_work_are_told_apart(monkeypatch):
    monkeypatch.setattr(growth, "ENOUGH", 0.0005)
    assert grows_linearly(lambda numbers: sum(number % 7 for number in numbers), range, 1000)
    assert grows_linearly(len, lambda n: range(n), 1000)
    assert not grows_linearly(lambda n: sum(1 for one in range(n) for other in range(n)), int, 50)
