"""The tables of ``lumen-tune calibrate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumen_policy.cli.render import number, print_lines, print_table, share

__all__ = ["print_calibration", "print_observation"]


def print_calibration(document: Mapping[str, Any]) -> None:
    """Errors of each form, coefficients and the measured range."""
    print_lines(f"{document['model']}, TP {document['tensor_parallel']}: profile {document['profile']}", "")
    print_table(
        "relative errors on rows not fitted",
        ("form", "rows", "median", "P90", "beyond half the range: median", "P90"),
        [
            (
                name.replace("_", " "),
                number(fit["rows"]),
                share(fit["median_error"]),
                share(fit["p90_error"]),
                share(fit["extrapolated_median_error"]),
                share(fit["extrapolated_p90_error"]),
            )
            for name, fit in document["fit"].items()
        ],
    )
    print_table(
        "coefficients (the curves are in the profile)",
        ("term", "µs"),
        [
            (name.removesuffix("_s"), f"{round(value * 1e6, 6):,.6g}")
            for name, value in document["coefficients"].items()
        ],
    )
    print_table(
        "measured range, of one iteration",
        ("count", "largest"),
        [(name.replace("_", " "), number(value)) for name, value in document["range"].items()],
    )


def print_observation(document: Mapping[str, Any]) -> None:
    """The factor and the errors before and after it."""
    print_lines(
        f"{document['requests']:,} requests: iterations take {document['residual_scale']:.3f} × the prediction; "
        f"profile {document['profile']}",
        "",
    )
    print_table(
        "median error of the prediction",
        ("time", "before", "after"),
        [
            (
                name.upper(),
                share(document[f"{name}_error_before"]),
                share(document[f"{name}_error_after"]),
            )
            for name in ("ttft", "tpot")
        ],
    )
