"""Run every line of the bench, or those of the groups named: kernel, faults, commands, traces, calibration."""

from __future__ import annotations

import importlib
import os
import sys

from bench.line import print_lines

_GROUPS = ("kernel", "faults", "commands", "traces", "calibration")


def main() -> int:
    """Print the figures; exit 1 if a target is missed."""
    asked = sys.argv[1:] or list(_GROUPS)
    unknown = [group for group in asked if group not in _GROUPS]
    if unknown:
        print(f"bench: {unknown[0]!r} is not one of {', '.join(_GROUPS)}", file=sys.stderr)
        return 2
    print(f"{os.cpu_count()} processors; medians; CPU seconds where it says so\n")
    held = True
    for group in asked:
        print(f"-- {group}")
        held = print_lines(importlib.import_module(f"bench.{group}").lines()) and held
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
