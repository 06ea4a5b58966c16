"""Python in, machine code out: a small compiler for the replay kernel and for rules that a user writes.

The subset it takes is Python whose meaning is the same in 64 bits:

- functions with plain parameters, ``if``, ``while``, ``for … in range(…)``, ``break``, ``continue``, ``return`` of
  nothing, one number or several; no recursion;
- ints (bools are 0 and 1), floats, ``np.uint64``; a name keeps its kind; ``+ - *`` wrap around at 64 bits, ``// %``
  round down, ``& | ^ ~ << >>``, comparisons (an int and a float exactly), chains, ``in (a, b)``, ``and or not``,
  ``x if c else y``, ``min max abs len int float``, ``np.int64 np.uint64``;
- rows and records of the state: ``s.by_worker[QUEUE, i]``, ``w = s.workers[i]; w.steps += 1``, rows as arguments,
  ``leading(row, n)``, ``len(row)``, ``s.expected.shape[1]``; indices count from 0 and are in range;
- other functions of the subset by name, and numbers of the modules around.

Anything else is refused with file and line (``SubsetError``). The same functions run as plain Python (``plain``), on
Python ints.

``layout`` states the memory, ``source`` finds texts and meanings, ``assigned`` refuses names without a value,
``emitter``, ``arithmetic``, ``expressions``, ``calls`` and ``statements`` write one function, ``module`` all of them as
one LLVM module, ``machine`` turns that into code and loads it, ``object_cache`` keeps it.
"""

from lumen_policy.native.source import SubsetError, inline, leading

__all__ = ["SubsetError", "inline", "leading"]
