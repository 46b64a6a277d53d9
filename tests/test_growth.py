"""The measure that tests of hostile input share tells linear from quadratic."""

from growth import grows_linearly


def test_linear_and_quadratic_work_are_told_apart():
    assert grows_linearly(sorted, lambda n: list(range(n)), 1000)
    assert grows_linearly(len, lambda n: range(n), 1000)
    assert not grows_linearly(lambda n: [other for one in range(n) for other in range(n)], int, 50)
