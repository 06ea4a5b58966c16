"""Seconds as people write them and picoseconds as the replay counts them."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from lumen_policy.errors import InputError
from lumen_policy.trace.table import MAX_SPAN_PS, PS_PER_S

__all__ = ["seconds_to_ps"]


def seconds_to_ps(field: str, seconds: str | float | int) -> int:
    """A time in seconds, exactly from its decimal text, as integer picoseconds (half to even).

    Args:
        field: named in the error.
        seconds: decimal text or a number ≥ 0; a float counts as its shortest text.

    Raises:
        InputError: not a finite number ≥ 0, or beyond 90 days.
    """
    try:
        value = Decimal(str(seconds).strip())
    except ArithmeticError:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0:
        raise InputError(f"{field}: {str(seconds)!r} is not a time in seconds ≥ 0")
    if value > MAX_SPAN_PS // PS_PER_S:
        raise InputError(f"{field}: {seconds} s is beyond the 90 days a replay can span")
    return int((value * PS_PER_S).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
