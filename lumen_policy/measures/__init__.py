"""Measures of a replay: pure functions over its input and output, defined in docs/metrics.md."""

from lumen_policy.measures.distributions import Distribution
from lumen_policy.measures.impact import ExcessE2E, excess_e2e
from lumen_policy.measures.load import MeanLoad, mean_load
from lumen_policy.measures.options import MeasureOptions, RecoveryOptions, default_horizon_ps
from lumen_policy.measures.per_request import per_request_columns, per_request_frame
from lumen_policy.measures.recovery import Recovery, recovery
from lumen_policy.measures.saturation import Saturation, saturation
from lumen_policy.measures.summary import Impact, ReplaySummary, Requests, summarise

__all__ = [
    "Distribution",
    "ExcessE2E",
    "Impact",
    "MeanLoad",
    "MeasureOptions",
    "Recovery",
    "RecoveryOptions",
    "ReplaySummary",
    "Requests",
    "Saturation",
    "default_horizon_ps",
    "excess_e2e",
    "mean_load",
    "per_request_columns",
    "per_request_frame",
    "recovery",
    "saturation",
    "summarise",
]
