"""Expected values on disk."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from opserve_kernels.cases.cache import Cache, cache_folder

ARRAYS = {"a": np.arange(100.0), "b": np.zeros((2, 0))}
KEYS = [f"{i:02x}" + "0" * 62 for i in range(20)]


def file_of(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.npz"


def test_stored_arrays_are_found_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get(KEYS[0]) is None
    cache.put(KEYS[0], ARRAYS)
    found = Cache(tmp_path).get(KEYS[0])
    assert found is not None
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in ARRAYS.items()
    }


@pytest.mark.parametrize("kept", [0, 1, 100, 600, -1])
def test_a_file_that_is_torn_is_no_file(kept: int, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEYS[0], ARRAYS)
    path = file_of(tmp_path, KEYS[0])
    path.write_bytes(path.read_bytes()[:kept])
    assert cache.get(KEYS[0]) is None


def test_a_bit_that_fell_over_is_seen(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEYS[0], ARRAYS)
    path = file_of(tmp_path, KEYS[0])
    data = bytearray(path.read_bytes())
    place = data.index(np.float64(50.0).tobytes())
    data[place + 7] ^= 1
    path.write_bytes(data)
    assert cache.get(KEYS[0]) is None


def test_the_least_recently_used_files_are_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=1 << 30)
    for age, key in enumerate(KEYS):
        cache.put(key, ARRAYS)
        os.utime(file_of(tmp_path, key), (1000 + age, 1000 + age))
    size = file_of(tmp_path, KEYS[0]).stat().st_size
    cache.get(KEYS[0])
    Cache(tmp_path, limit_bytes=10 * size).put("ff" + "0" * 62, ARRAYS)
    left = [key for key in KEYS if cache.get(key) is not None]
    assert KEYS[0] in left
    assert left[1:] == KEYS[-len(left) + 1 :]
    assert 6 <= len(left) <= 8


def test_files_of_others_stay(tmp_path: Path) -> None:
    theirs = tmp_path / "ff" / "thesis.npz"
    theirs.parent.mkdir()
    theirs.write_bytes(bytes(2**16))
    os.utime(theirs, (1000, 1000))
    cache = Cache(tmp_path, limit_bytes=1)
    cache.put(KEYS[0], ARRAYS)
    assert cache.get(KEYS[0]) is None
    assert theirs.stat().st_size == 2**16


def test_many_may_write_one_key(tmp_path: Path) -> None:
    def write_and_read(turn: int) -> bool:
        cache = Cache(tmp_path)
        cache.put(KEYS[turn % 2], ARRAYS)
        return cache.get(KEYS[turn % 2]) is not None

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_and_read, range(64)))
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    cache.put(KEYS[0], ARRAYS)
    assert cache.get(KEYS[0]) is None


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/opserve/expected-values")
