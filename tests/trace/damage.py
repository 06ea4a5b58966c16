"""Random damage to the bytes of a file."""

from __future__ import annotations

import random

__all__ = ["damage"]

_INTERESTING = b"0123456789,.;\"'\r\n\t\x00\xff-+eE{}[]: \\"


def damage(content: bytes, rng: random.Random) -> bytes:
    """One to four random edits: bytes changed, removed, inserted, repeated, or the end cut off."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(7)
        length = min(len(data) - at, rng.choice((1, 1, 2, 8, 60)))
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] = rng.choice(_INTERESTING)
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = bytes(rng.choice(_INTERESTING) for _ in range(rng.randint(1, 5)))
        elif kind == 4:
            data[at:at] = data[at : at + length]
        elif kind == 5 and rng.random() < 0.2:
            del data[at:]
        else:
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data)
