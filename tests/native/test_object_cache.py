"""Machine code kept between runs: nothing damaged or foreign is ever used, and nothing stops a run."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lumen_policy.native import object_cache
from lumen_policy.native.object_cache import ObjectCache, Stored, unfit

KEY = hashlib.sha256(b"a program").hexdigest()
GOOD = Stored(random.Random(1).randbytes(5000), {"returns": {"run": True}, "sites": ["a:1: an index"]})
ANOTHER = Stored(b"another", {})


class Place:
    """A cache, what it said, and how often something was made."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.made = 0
        self.folder = folder
        self.cache = ObjectCache(folder, self.said.append)

    def get(self, found: Stored = GOOD, key: str = KEY) -> Stored:
        def make() -> Stored:
            self.made += 1
            return found

        self.said.clear()
        return self.cache.get(key, make)

    @property
    def file(self) -> Path:
        return self.cache.path(KEY)

    def is_made_anew(self) -> None:
        """What lies there is not used: one line, and the good one is made and kept."""
        before = self.made
        assert self.get() == GOOD
        assert self.made == before + 1
        assert len(self.said) == 1
        assert "\n" not in self.said[0]
        assert "compiling anew" in self.said[0]
        assert self.get(ANOTHER) == GOOD
        assert (self.made, self.said) == (before + 1, [])

    def is_not_kept(self, *words: str) -> None:
        """Two runs make it twice, and each says why in one line."""
        for number in (1, 2):
            assert self.get() == GOOD
            assert self.made == number
            assert len(self.said) == 1
            assert all(word in self.said[0] for word in ("not kept", *words)), self.said


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "a/b/kernel")


def needs_a_user() -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")


def test_made_once(place: Place) -> None:
    """One file, the owner's alone whatever the umask; no leavings."""
    before = os.umask(0)
    try:
        assert place.get() == GOOD
    finally:
        os.umask(before)
    assert (place.get(ANOTHER), place.made, place.said) == (GOOD, 1, [])
    for folder in (place.folder, place.folder.parent, place.folder.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.suffix for path in place.folder.iterdir()} == {".object", ".lock"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in place.folder.iterdir())


@pytest.mark.parametrize("part", range(8))
def test_flipped_bits(part: int, place: Place) -> None:
    """Seven bits anywhere in the file, in its beginning, its checksum, its facts and its code."""
    place.get()
    whole = place.file.read_bytes()
    starts = [0, 12, 20, 50, 86, 140, 400, len(whole) - 60]
    for seed in range(12):
        chance = random.Random(100 * part + seed)
        damaged = bytearray(whole)
        for _ in range(7):
            at = starts[part] + chance.randrange(60)
            damaged[at] ^= 1 << chance.randrange(8)
        if damaged == whole:
            continue
        place.file.write_bytes(damaged)
        place.is_made_anew()


def test_each_bit_of_the_beginning(place: Place) -> None:
    place.get()
    whole = place.file.read_bytes()
    for bit in range(8 * 120):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(object_cache._DamagedError):
            object_cache._parse(bytes(damaged), KEY)


def test_cut_off_and_longer(place: Place) -> None:
    place.get()
    whole = place.file.read_bytes()
    for length in (0, 1, 19, 20, 60, 84, 85, 86, 200, len(whole) // 2, len(whole) - 1):
        place.file.write_bytes(whole[:length])
        place.is_made_anew()
    place.file.write_bytes(whole + b"\0")
    place.is_made_anew()


def test_of_another_key(place: Place) -> None:
    """A file of another version under this one's name: the whole key is in it."""
    other = KEY[:32] + KEY[:32][::-1]
    assert place.get(ANOTHER, other) == ANOTHER
    assert place.file == place.cache.path(other)
    place.is_made_anew()


def test_facts_that_are_none(place: Place) -> None:
    place.get(Stored(b"", ["a list"]))  # type: ignore[arg-type]
    place.is_made_anew()


def test_what_others_may_write_is_not_used(place: Place) -> None:
    place.get()
    place.file.chmod(0o622)
    place.is_made_anew()


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.symlink_to(path.with_suffix(".elsewhere")),
        lambda path: path.symlink_to("/nowhere"),
        lambda path: path.symlink_to(path),
        os.mkfifo,
    ],
    ids=["link", "dangling", "loop", "pipe"],
)
def test_no_file_in_its_place(put: Callable[[Path], None], place: Place) -> None:
    """A link is not followed, a pipe not waited for; what a link names is left alone."""
    place.get()
    place.file.rename(place.file.with_suffix(".elsewhere"))
    put(place.file)
    before = place.made
    assert place.get() == GOOD
    assert place.made == before + 1
    assert len(place.said) == 1
    assert "compiling anew" in place.said[0]
    assert place.file.is_file()
    assert not place.file.is_symlink()
    assert place.file.with_suffix(".elsewhere").is_file()
    assert place.get(ANOTHER) == GOOD
    assert place.said == []


def test_a_folder_in_its_place(place: Place) -> None:
    place.file.mkdir(parents=True, mode=0o700)
    place.folder.chmod(0o700)
    assert place.get() == GOOD
    assert ["compiling anew" in line for line in place.said] == [True, False]
    assert "not kept" in place.said[1]
    assert place.get() == GOOD
    assert place.made == 2


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write(mode: int, place: Place) -> None:
    place.get()
    place.folder.chmod(mode)
    place.made = 0
    place.is_not_kept("others may write", str(place.folder))


def test_a_folder_in_a_public_one(place: Place) -> None:
    """Where anybody may rename it, it is not used; where they may not (sticky), or only a group may, it is."""
    place.get()
    for mode, used in ((0o777, False), (0o1777, True), (0o775, True), (0o755, True)):
        place.folder.parent.chmod(mode)
        assert (unfit(place.folder) == "") == used
    place.folder.parent.chmod(0o700)


def test_a_folder_of_somebody_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.get()
    place.made = 0
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    place.is_not_kept("is not yours")


def test_a_file_of_somebody_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.get()
    uid = os.geteuid()
    monkeypatch.setattr(object_cache, "unfit", lambda _: "")
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    place.get()
    assert place.made == 2
    assert "is not yours alone" in place.said[0]


def test_a_link_in_place_of_the_folder(place: Place, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    place.folder.parent.mkdir(parents=True, mode=0o700)
    place.folder.symlink_to(real)
    place.is_not_kept("is not a folder")
    assert list(real.iterdir()) == []


def test_a_file_in_place_of_the_folder(place: Place) -> None:
    place.folder.parent.mkdir(parents=True, mode=0o700)
    place.folder.write_text("")
    place.is_not_kept("is not a folder")


def test_a_file_further_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Place(tmp_path / "file/b/kernel").is_not_kept()


def test_a_folder_that_cannot_be_written(place: Place) -> None:
    needs_a_user()
    place.get()
    place.made = 0
    place.file.unlink()
    place.file.with_suffix(".lock").unlink()
    place.folder.chmod(0o500)
    try:
        place.is_not_kept("Permission denied")
    finally:
        place.folder.chmod(0o700)


def test_what_lies_in_a_folder_that_cannot_be_written_is_used(place: Place) -> None:
    place.get()
    place.folder.chmod(0o500)
    try:
        assert (place.get(ANOTHER), place.said) == (GOOD, [])
    finally:
        place.folder.chmod(0o700)


def test_a_home_that_cannot_be_written(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a read-only file system."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system", str(place.folder))

    monkeypatch.setattr(Path, "mkdir", refuse)
    place.is_not_kept("Read-only file system")


@pytest.mark.parametrize("call", ["mkstemp", "write", "replace"])
def test_a_full_disk(call: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept, nothing half-written stays."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    class Full:
        def __init__(self, handle: int, _: str) -> None:
            self._handle = handle

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            os.close(self._handle)

        write = full

    if call == "mkstemp":
        monkeypatch.setattr(object_cache.tempfile, "mkstemp", full)
    elif call == "replace":
        monkeypatch.setattr(os, "replace", full)
    else:
        monkeypatch.setattr(os, "fdopen", Full)
    place.is_not_kept("No space left on device")
    assert [path.suffix for path in place.folder.iterdir()] == [".lock"]


def test_a_lock_that_cannot_be_made(place: Place) -> None:
    place.file.with_suffix(".lock").mkdir(parents=True, mode=0o700)
    place.folder.chmod(0o700)
    place.is_not_kept(".lock")


def test_a_link_in_place_of_the_lock(place: Place, tmp_path: Path) -> None:
    place.folder.mkdir(parents=True, mode=0o700)
    place.file.with_suffix(".lock").symlink_to(tmp_path / "victim")
    place.is_not_kept(".lock")
    assert not (tmp_path / "victim").exists()


def test_a_lock_that_nobody_holds(place: Place) -> None:
    """What a killed process left does not count."""
    place.folder.mkdir(parents=True, mode=0o700)
    place.file.with_suffix(".lock").write_text("123")
    assert (place.get(), place.said) == (GOOD, [])
    assert place.get(ANOTHER) == GOOD


def test_a_lock_that_is_held_for_ever(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped does not stop the others."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(object_cache, "_PATIENCE_S", 0.1)
    place.folder.mkdir(parents=True, mode=0o700)
    with place.file.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert place.get() == GOOD
    assert place.get(ANOTHER) == GOOD


def test_a_file_system_without_locks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert (place.get(), place.get(ANOTHER), place.said) == (GOOD, GOOD, [])


def make_slowly(folder: Path, ready: object, made: object) -> None:
    def make() -> Stored:
        with made.get_lock():  # type: ignore[attr-defined]
            made.value += 1  # type: ignore[attr-defined]
        time.sleep(0.2)
        return GOOD

    ready.wait()  # type: ignore[attr-defined]
    assert ObjectCache(folder, print).get(KEY, make) == GOOD


def test_several_at_once_make_one(place: Place) -> None:
    context = multiprocessing.get_context("fork")
    ready, made = context.Barrier(5), context.Value("i", 0)
    processes = [context.Process(target=make_slowly, args=(place.folder, ready, made)) for _ in range(5)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 5
    assert made.value == 1


def die_while_making(folder: Path) -> None:
    def make() -> Stored:
        os.kill(os.getpid(), signal.SIGKILL)
        return GOOD

    ObjectCache(folder, print).get(KEY, make)


def test_a_process_that_dies_while_it_makes(place: Place) -> None:
    """Its lock is gone with it."""
    process = multiprocessing.get_context("fork").Process(target=die_while_making, args=(place.folder,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (place.get(), place.said, place.made) == (GOOD, [], 1)


def test_the_ones_used_last_are_kept(place: Place) -> None:
    """Others are dropped with their locks, and so is what a killed process never finished."""
    keys = [hashlib.sha256(bytes([number])).hexdigest() for number in range(14)]
    for age, key in enumerate(keys[:12]):
        place.get(ANOTHER, key)
        os.utime(place.cache.path(key), (time.time() - 1000 + age,) * 2)
    place.get(ANOTHER, keys[0])
    unfinished, lock = place.folder / ".half", place.folder / "alone.lock"
    for path in (unfinished, lock):
        path.write_text("")
        os.utime(path, (time.time() - 2 * 86_400,) * 2)
    young = place.folder / ".just begun"
    young.write_text("")
    place.get(ANOTHER, keys[12])
    place.get(ANOTHER, keys[13])
    left = {key for key in keys if place.cache.path(key).exists()}
    assert left == {keys[0], *keys[3:]}
    assert {path.stem for path in place.folder.glob("*.lock")} == {key[:32] for key in left}
    assert [path.name for path in place.folder.glob(".*")] == [young.name]


def test_forgotten(place: Place) -> None:
    place.get()
    place.cache.forget(KEY, "cannot be loaded")
    assert place.said == [f"{place.file} cannot be loaded: compiling anew"]
    assert not place.file.exists()
    place.cache.forget(KEY, "cannot be loaded")
