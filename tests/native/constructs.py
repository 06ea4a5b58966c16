"""One function for each construct of the subset; the tests call them compiled and as plain Python."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from lumen_policy.native import inline, leading
from native import neighbour
from native.neighbour import shared_twice


class Colour(enum.IntEnum):
    RED = 3
    BLUE = -5


SEVEN = 7
LOWEST = -(2**63)
YES = True
WIDE = np.int64(-9)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
RATE = 0.1
NOT_A_NUMBER, ENDLESS = math.nan, -math.inf
QUEUE, LIVE = 1, 2


# --- numbers --------------------------------------------------------------------------------------------------
def add(s: Any, a: int, b: int) -> int:
    return a + b


def subtract(s: Any, a: int, b: int) -> int:
    return a - b


def multiply(s: Any, a: int, b: int) -> int:
    return a * b


def floor_divide(s: Any, a: int, b: int) -> int:
    return a // b


def modulo(s: Any, a: int, b: int) -> int:
    return a % b


def bit_and(s: Any, a: int, b: int) -> int:
    return a & b


def bit_or(s: Any, a: int, b: int) -> int:
    return a | b


def bit_xor(s: Any, a: int, b: int) -> int:
    return a ^ b


def shift_left(s: Any, a: int, b: int) -> int:
    return a << b


def shift_right(s: Any, a: int, b: int) -> int:
    return a >> b


def negated(s: Any, a: int, b: int) -> int:
    return -a + (+b) - b


def inverted(s: Any, a: int, b: int) -> int:
    return ~a


def magnitude(s: Any, a: int, b: int) -> int:
    return abs(a)


def divided_by_constants(s: Any, a: int, b: int) -> int:
    return (a // 7) ^ (a % 7) ^ (a // -7) ^ (a % -7) ^ (a // 1) ^ (a % -1)


def divided_by_minus_one(s: Any, a: int, b: int) -> int:
    return a // -1


def divided_by_zero(s: Any, a: int, b: int) -> int:
    return (a // 0) | (a % 0)


def shifted_by_constants(s: Any, a: int, b: int) -> int:
    return (a << 3) ^ (a >> 3) ^ (a << 0) ^ (a >> 63) ^ (a << 63)


def lowest_of_all(s: Any, a: int, b: int) -> int:
    return -9223372036854775808 ^ LOWEST ^ -LOWEST


def unsigned(s: Any, a: int, b: int) -> None:
    x = np.uint64(a)
    y = np.uint64(b)
    s.words[0] = x + y
    s.words[1] = x - y
    s.words[2] = x * y
    s.words[3] = x // y
    s.words[4] = x % y
    s.words[5] = (x & y) ^ (x | y)
    s.words[6] = (x << y) ^ (x >> y)
    s.words[7] = (-x) ^ (~y) ^ abs(x) ^ min(x, y) ^ max(x, y)


def unsigned_compared(s: Any, a: int, b: int) -> int:
    x = np.uint64(a)
    y = np.uint64(b)
    lower = (x < y) + 2 * (x <= y) + 4 * (x == y) + 8 * (x != y) + 16 * (x > y) + 32 * (x >= y)
    return lower + 64 * (x in (y, np.uint64(3))) + 128 * (0 if x else 1)


def unsigned_constants(s: Any, a: int, b: int) -> int:
    s.words[0] = np.uint64(0xFFFFFFFFFFFFFFFF) - np.uint64(1)
    s.words[1] = GOLDEN ^ np.uint64(3)
    s.words[2] = -np.uint64(1)
    return np.int64(np.uint64(0xFFFFFFFFFFFFFFFF)) + int(np.uint64(5))


def drawn(s: Any, a: int, b: int) -> int:
    x = GOLDEN ^ np.uint64(a)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.int64(x >> np.uint64(32)) % 1000


def least_and_most(s: Any, a: int, b: int) -> int:
    return min(a, b, 5) ^ (max(a, b) << 1) ^ min(max(a, -3), b, a, 0)


def floats(s: Any, a: int, b: int) -> None:
    x = float(a)
    y = b / 8.0
    s.floats[0] = x + y
    s.floats[1] = x - y * x
    s.floats[2] = x * RATE
    s.floats[3] = x / (abs(y) + 1)
    s.floats[4] = min(x, y, 0.5)
    s.floats[5] = max(-x, abs(y))
    s.floats[6] = float(np.uint64(b & 255)) + np.float64(a)
    s.floats[7] = -x * y + x


def float_zeros(s: Any, a: int, b: int) -> None:
    zero = float(a) * 0.0
    s.floats[0] = -zero
    s.floats[1] = min(0.0, -0.0)
    s.floats[2] = max(-0.0, 0.0)
    s.floats[3] = min(NOT_A_NUMBER, 1.0)
    s.floats[4] = min(1.0, NOT_A_NUMBER)
    s.floats[5] = abs(-0.0)
    s.floats[6] = ENDLESS


def truncated(s: Any, a: int, b: int) -> int:
    return int(s.floats[0]) + np.int64(s.floats[1])


def rounded(s: Any, a: int, b: int) -> int:
    s.floats[0] = float(a)
    return int(True) + int(a) - a


# --- comparisons and choices ----------------------------------------------------------------------------------
def compared(s: Any, a: int, b: int) -> int:
    return (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > b) + 32 * (a >= b)


def compared_to_float(s: Any, a: int, b: int) -> int:
    x = s.floats[0]
    left = (a < x) + 2 * (a <= x) + 4 * (a == x) + 8 * (a != x) + 16 * (a > x) + 32 * (a >= x)
    right = (x < a) + 2 * (x <= a) + 4 * (x == a) + 8 * (x != a) + 16 * (x > a) + 32 * (x >= a)
    return left + 64 * right


def chained(s: Any, a: int, b: int) -> int:
    if -5 < a <= b != 7:
        return 1
    return (a < b < 10 < 11) + 2 * (a == b == a)


def among(s: Any, a: int, b: int) -> int:
    few = (a in (1, b)) + 2 * (a not in (b, 2, -3)) + 4 * (a in [0, 1.0]) + 8 * (b in {64})
    if b not in (0, 1) and a in (a, b):
        few += 16
    return few


def both_or_either(s: Any, a: int, b: int) -> int:
    s.row[0] = a and b
    s.row[1] = a or b
    s.row[2] = (a and b and 3) or -1
    s.floats[0] = float(a) and 2.5
    s.floats[1] = float(a) or -0.5
    s.row[3] = (a > 0 and b) + (a < b or 9)
    return not (a and not b)


def conditions(s: Any, a: int, b: int) -> int:
    found = 0
    if a and b:
        found += 1
    if a or b:
        found += 2
    if not a:
        found += 4
    if not (a and (b or not a)) or (a < b and not b < 3):
        found += 8
    if float(b):
        found += 16
    if bool(a) == (a != 0):
        found += 32
    return found


def short_circuit(s: Any, a: int, b: int) -> int:
    if b != 0 and touched(s, a) > 0 and touched(s, b) > 0:
        s.row[1] = 1
    if a > 0 or touched(s, 5) > 0:
        s.row[2] = 1
    s.row[3] = a > 5 > touched(s, 100)
    s.row[4] = touched(s, 7) if b > 2 else -touched(s, 9)
    return (a and touched(s, 30)) or touched(s, 0)


def touched(s: Any, number: int) -> int:
    s.row[0] = s.row[0] * 3 + number
    return number


def chosen(s: Any, a: int, b: int) -> int:
    s.floats[0] = 0.5 if a < b else (-0.5 if a == b else 2.0)
    return a if a < b else b if b > 3 else 77


# --- flow -----------------------------------------------------------------------------------------------------
def count_down(s: Any, a: int, b: int) -> int:
    n = a & 31
    total = 0
    while n > 0:
        n -= 1
        if n == 7:
            continue
        if total > 100:
            break
        total += n
    return total * 100 + n


def without_end(s: Any, a: int, b: int) -> int:
    n = 0
    while True:
        n += 1
        if n > (a & 15):
            return n
        while 1:
            n += 1
            if n & 1:
                break
    return -1


def ranges(s: Any, a: int, b: int) -> int:
    total = 0
    for i in range(a & 7):
        total = total * 3 + i
    for i in range(-3, b % 9):
        total = total * 3 + i
    for i in range(a % 20, -5, -3):
        total = total * 3 + i
    for i in range(2, a % 40, 7):
        total = total * 3 + i
    return total


def range_at_the_edge(s: Any, a: int, b: int) -> int:
    count = 0
    for _ in range(9223372036854775800, 9223372036854775807, 5):
        count += 1
    for _ in range(-9223372036854775800, -9223372036854775808, -9223372036854775807):
        count += 10
    for _ in range(-9223372036854775808, 9223372036854775807, 9223372036854775807):
        count += 100
    return count


def range_is_fixed(s: Any, a: int, b: int) -> int:
    n = 4
    total = 0
    i = 99
    for i in range(n):
        n = 100
        total = total * 10 + i
        i += 50
        total += i
    for _ in range(0):
        i = 0
    return total * 1000 + i


def nested_loops(s: Any, a: int, b: int) -> int:
    found = 0
    for i in range(6):
        for j in range(6):
            if j > i:
                break
            if (i + j) % 3 == 1:
                continue
            for k in range(4):
                if k == a % 5:
                    if i == b % 6:
                        break
                    found += 100
                else:
                    found += k
            found += i * j
        if found > 2000:
            break
    return found


def branches(s: Any, a: int, b: int) -> int:
    if a < 0:
        if b < 0:
            x = 1
        else:
            return 2
    elif a == 0:
        x = 3
    else:
        while True:
            if b < 0:
                x = 4
                break
            x = 5
            if b > 3:
                break
            b += 1
    return x


def dead_code(s: Any, a: int, b: int) -> int:
    if a > b:
        return 1
        a = [1, 2]  # nobody gets here
    for _ in range(3):
        break
        b = 5
    while True:
        return b


def several(s: Any, a: int, b: int) -> tuple[int, float, int]:
    if a < b:
        return a, 0.5, b
    return b, float(a), -1


def several_taken(s: Any, a: int, b: int) -> int:
    x, y, z = several(s, a, b)
    s.row[0], s.floats[1], _ = several_again(s, b, a)
    s.floats[0] = y
    (_, _unused) = 1, y
    return x ^ (z << 5)


def several_again(s: Any, a: int, b: int) -> tuple[int, float, int]:
    return several(s, a, b)


def swapped(s: Any, a: int, b: int) -> int:
    a, b = b, a
    s.row[0], s.row[1] = s.row[1], s.row[0]
    i = 1
    i, s.row[i], a = 3, i, a + i
    x = y = s.row[2] = a - b
    return x + y + i


def annotated(s: Any, a: int, b: int) -> int:
    x: int = a
    s.row[0]: int = b  # type: ignore[misc]
    pass
    return x


def augmented(s: Any, a: int, b: int) -> int:
    a += b
    a -= 3
    a *= 5
    a //= 7
    a %= 1000
    a <<= 3
    a >>= 1
    a |= 16
    a &= 0xFFFF
    a ^= b & 255
    s.row[a & 7] += 5
    s.row[a & 7] *= -3
    s.floats[1] /= 2
    s.floats[1] -= a
    w = s.records[1]
    w.wide -= 9
    w.middle += 1
    w.parts[1] ^= 6
    w.share *= 0.5
    w.word <<= np.uint64(3)
    return a


def augmented_in_order(s: Any, a: int, b: int) -> int:
    s.row[0] += touched(s, 5)
    s.records[0].wide += changing(s.records[0])
    s.row[1] -= s.row[1] + touched(s, 1)
    return s.row[0] + touched(s, 2)


def changing(w: Any) -> int:
    w.wide = 1000
    return 1


# --- memory ---------------------------------------------------------------------------------------------------
def every_width(s: Any, a: int, b: int) -> int:
    w = s.records[2]
    w.wide = a
    w.middle = a
    w.short = a
    w.tiny = a
    w.share = float(b)
    w.word = np.uint64(b)
    w.parts[2] = a
    w.bits[1, 2] = a
    s.middles[3] = a
    s.shorts[1, 2] = b
    s.tinies[7] = a
    return w.wide ^ w.middle ^ w.short ^ w.tiny ^ s.middles[3] ^ s.shorts[1, 2] ^ s.tinies[7] ^ w.bits[1, 2]


def copied(s: Any, a: int, b: int) -> int:
    s.records[0] = s.records[1]
    s.records[1].wide = 5
    s.records[0].parts[0] += 1
    s.records[2] = s.records[2]
    w = s.records[3]
    s.records[3] = s.records[0]
    s.pairs[1, 2] = s.pairs[0, 1]
    s.pairs[0, 1].bits[0, 1] = 9
    return w.wide + s.records[0].wide


def parts(s: Any, a: int, b: int) -> int:
    w = s.records[1]
    numbers = w.parts
    numbers[2] = numbers[0] + len(numbers)
    bits = s.others[0].bits
    bits[1, 0] = len(bits) + bits.shape[1]
    return summed(numbers) + summed(bits[1]) + summed(s.others[2].parts)


def summed(row: Any) -> int:
    total = 0
    for i in range(len(row)):
        total += row[i]
    return total


def axes(s: Any, a: int, b: int) -> int:
    row = s.grid[2]
    row[1] = 7
    plane = s.cube[1]
    plane[2, 3] = 8
    line = plane[2]
    line[0] = s.cube[0, 1, 2] + plane[1, 1] + s.cube[1, 0][3]
    return (
        summed(row) + summed(line) + summed(s.cube[0, 2]) + summed(s.fixed[1]) + summed(s.row) + s.grid[3, 4]
    )


def lengths(s: Any, a: int, b: int) -> int:
    total = len(s.row) + 10 * len(s.grid) + 100 * s.grid.shape[1] + 1000 * len(s.cube[0])
    total += 10_000 * s.cube.shape[2] + 100_000 * len(s.fixed[0]) + 1_000_000 * len(s.fixed)
    return total * 10 + s.fixed.shape[True] + len(s.none) + s.hollow.shape[1] + len(s.singles)


def led(s: Any, a: int, b: int) -> int:
    head = leading(s.row, 2)
    return summed(head) + 10 * len(head) + 100 * summed(leading(s.grid[2], a & 3)) + len(leading(s.row, 0))


def by_pointer(s: Any, a: int, b: int) -> int:
    s.fixed[QUEUE, 2] = a
    s.fixed[a % 3, b % 6] += 1
    every = s.fixed
    every[LIVE, 0] -= 5
    row = s.fixed[a & 1]
    row[5] = 3
    s.singles[b % 4] = 70
    return summed(row) + every[0, 0] + shared(s.fixed, a % 3) + s.singles[1]


def shared(rows: Any, i: int) -> int:
    return rows[i, 1] * 2 + len(rows[i])


def handed_on(s: Any, a: int, b: int) -> int:
    t = s
    bump(s.records[a % 4], b)
    bump(t.others[1], 3)
    bump(w=s.pairs[1, 0], by=a)
    return summed(s.grid[a % 4]) + summed(t.row) + s.records[a % 4].wide


def bump(w: Any, by: int = SEVEN) -> None:
    w.wide += by
    if by > 5:
        return
    w.tiny -= 1


# --- names and functions --------------------------------------------------------------------------------------
def constants(s: Any, a: int, b: int) -> int:
    s.floats[0] = RATE
    s.floats[1] = neighbour.RATIO
    return SEVEN + Colour.RED * 10 + Colour.BLUE.value + neighbour.LIMIT + YES + WIDE + True + int(Colour.RED)


def defaults(s: Any, a: int, b: int) -> int:
    return offered(a) + offered(a, 2) + offered(a, y=b) + offered(y=1, x=b, colour=Colour.RED)


def offered(x: int, y: int = 11, colour: int = Colour.BLUE) -> int:
    return x * 100 + y * 10 + colour


def of_other_modules(s: Any, a: int, b: int) -> int:
    return neighbour.twice(a) + shared_twice(b) + neighbour.through_another(a)


def of_many_kinds(s: Any, a: int, b: int) -> int:
    s.floats[0] = largest(0.5, float(a))
    s.words[0] = largest(np.uint64(3), np.uint64(b & 7))
    first(s.floats)
    first(s.words)
    first(s.row)
    return largest(a, b)


@inline
def largest(x: Any, y: Any) -> Any:
    if x < y:
        return y
    return x


def first(row: Any) -> None:
    row[0] += row[1]


def inlined(s: Any, a: int, b: int) -> int:
    total = 0
    for i in range(largest(a & 3, b & 3)):
        total += largest(i, 1) * largest(a, i)
    return total


def with_unusual_names(s: Any, ä: int, θ: int) -> int:
    i64 = ä
    entry, void = θ, 1
    return i64 * 3 + entry + void


def made_by(offset: int, helper: Callable[[int], int], module: ModuleType) -> Callable[..., int]:
    """A function whose names come from around it."""

    def closure(s: Any, a: int, b: int) -> int:
        return a + offset * helper(b) + module.LIMIT

    return closure


enclosed = made_by(13, neighbour.twice, neighbour)
