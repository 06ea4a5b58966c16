"""The one exception that means "the input is wrong, not the program"."""

from __future__ import annotations

__all__ = ["InputError", "ReplayError"]


class InputError(ValueError):
    """Bad input from the user: one clear line that names what was found and what is allowed.

    The command line prints it on stderr and exits with code 2; the library raises it.
    """


class ReplayError(RuntimeError):
    """The replay itself failed (a broken invariant or an arithmetic limit): our fault, exit code 1."""
