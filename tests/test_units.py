"""Figures as documents write them: three digits, no exponent, and a unit that fits
after rounding."""

from __future__ import annotations

import pytest

from fusiondoc.rendering import units


@pytest.mark.parametrize(
    "value",
    [0.00001234, 0.0999, 0.276, 1.0, 9.996, 33.14, 99.96, 100.4, 1125.4, 2e9],
)
def test_digits_are_those_of_the_number_rounded_to_three(value: float) -> None:
    written = units.digits(value)
    assert "e" not in written
    assert float(written.replace(",", "")) == pytest.approx(
        float(f"{value:.3g}"), rel=5e-3
    )


def test_no_figure_is_rounded_up_into_a_power_of_ten() -> None:
    """``f"{999.7:.3g}"`` is ``1e+03``."""
    assert units.size(999_700) == "1 MB"
    assert units.size(999) == "999 B"
    assert units.size(65_536) == "65.5 KB"
    assert units.size(1_234_000_000_000) == "1,234 GB"
    assert units.seconds(1234.0) == "1,234 s"
    assert units.seconds(0.0331) == "33.1 ms"
    assert units.milliseconds(0.0042) == "4.2 us"
    assert units.ratio(0.004) == "0.004×"


def test_what_is_not_known_has_the_sign_of_its_format() -> None:
    assert units.TERMINAL.known(None, units.size) == "-"
    assert units.PAGE.known(None, units.size) == "–"
    assert units.PAGE.dimensions((128, 4, 1)) == "128×4"
    assert units.TERMINAL.dimensions((1, 1, 1)) == "1"


def test_a_share_of_more_than_nothing_is_not_written_as_nothing() -> None:
    assert units.share(0.004) == "< 1 %"
    assert units.share(0.0) == "0 %"
    assert units.share(0.79) == "79 %"
