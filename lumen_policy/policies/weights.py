"""α, β and θ as integers: quotients first, rounded to 9 significant digits, so that scaling all three by a
constant changes nothing."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from math import gcd

from cost_models.serving_costs import PAGE_TOKENS
from lumen_policy.errors import InputError

__all__ = ["decimal_text", "parse_weight", "round_significant", "scaled_weights"]

_NINE = Context(prec=9, rounding=ROUND_HALF_EVEN)
_CAP = 2**63 - 2
_SCALE_LIMIT = 10**16


def parse_weight(field: str, text: str) -> Decimal:
    """A decimal ≥ 0 from its text; InputError names the field otherwise."""
    try:
        value = Decimal(str(text))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0:
        extra = ", 'inf' or 'never'" if field == "theta" else ""
        raise InputError(f"{field}: {text!r} is not a decimal number ≥ 0{extra}")
    return value


def decimal_text(value: Decimal) -> str:
    """The shortest plain text of a decimal: no exponent, no trailing zeros."""
    if value == 0:
        return "0"
    return format(value.normalize(Context(prec=max(1, len(value.as_tuple().digits)))), "f")


def round_significant(value: Fraction) -> Decimal:
    """A non-negative rational rounded to 9 significant digits, half to even."""
    return _NINE.divide(Decimal(value.numerator), Decimal(value.denominator))


def scaled_weights(alpha: str, beta: str, theta: str) -> tuple[int, int, int]:
    """(token weight, request weight, θ) of L in one common integer scale.

    With β > 0: L/β = (α/β)·tokens/16 + Q. With β = 0: L/α = tokens/16. The scale is the smallest that makes both
    weights integers; θ is rounded down in it, which changes no comparison ``L ≤ θ``.

    Args:
        alpha, beta: decimal text, ≥ 0, not both 0.
        theta: decimal text, ``inf`` or ``never``.

    Raises:
        InputError: a ratio so extreme that integers of 64 bits cannot hold it.
    """
    a, b = Decimal(alpha), Decimal(beta)
    divisor = b if b > 0 else a
    ratio = Fraction(_NINE.divide(a, divisor)) if b > 0 else Fraction(1)
    per_token = ratio / PAGE_TOKENS
    per_request = Fraction(1 if b > 0 else 0)
    scale = per_token.denominator
    token_weight, request_weight = int(per_token * scale), int(per_request * scale)
    common = gcd(token_weight, request_weight) or 1
    if max(token_weight, request_weight) // common > _SCALE_LIMIT:
        raise InputError(
            f"alpha/beta: {alpha}/{beta} is out of range (about 1e-6 to 1e15 at nine significant digits)"
        )
    if theta == "inf":
        limit = 2**63 - 1
    elif theta == "never":
        limit = -1
    else:
        quotient = Fraction(_NINE.divide(Decimal(theta), divisor))
        limit = min(_CAP, int(quotient * scale / common))
    return token_weight // common, request_weight // common, limit
