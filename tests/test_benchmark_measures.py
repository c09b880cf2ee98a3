"""What benchmarks make of what they measure."""

import pytest

from benchmarks._measure import as_json, exponent, milliseconds, rate_ratio

SIZES = (1, 10, 100, 1000)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_an_exponent_is_the_power_with_which_it_grows(power):
    turns = [[scale * size**power for size in SIZES] for scale in (3, 5, 70)]
    made = exponent("m", SIZES, turns, against="", target=0.1)
    assert (power, power, power) == pytest.approx((made.value, made.low, made.high), abs=1e-4)


def test_nothing_at_all_sizes_is_flat():
    assert exponent("m", (0, 4, 16), [[0, 0, 0]] * 3, against="", target=0.1).value == 0


def test_of_a_rate_more_is_better():
    made = rate_ratio("m", [4.0, 6.0, 5.0], [2.0, 3.0, 2.5], against="", target=0.95)
    assert (2.0, "higher") == (made.value, made.better)


def test_what_grows_keeps_the_median_of_each_size_and_nothing_else_has_any():
    grown = exponent("m", (0, 4), [[2, 10], [1, 30], [9, 20]], against="", target=None)
    assert ((0, 2), (4, 20)) == as_json(grown)["points"]
    assert "points" not in as_json(milliseconds("m", [1.0], against=""))
