"""Memory: sizes as texts, what is free, what runs take, errors that mean that it ran out."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from onnx_ig.errors import OptionError, RunError
from onnx_ig.runtime.memory import Watch, bytes_of, free_memory, meter, out_of_memory


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1000, 1000), ("2GB", 2 * 10**9), ("500 MB", 500 * 10**6), ("1.5GiB", 3 * 2**29), ("64kib", 2**16),
        ("10", 10), ("3k", 3000), (None, None),
    ],
)  # fmt: skip
def test_sizes(text: object, size: int | None) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "much", "2XB", "-1", 0, "0GB", True, "1e9GBB"])
def test_sizes_that_are_none(text: object) -> None:
    with pytest.raises(OptionError, match="memory_budget"):
        bytes_of(text)


def test_free_memory_is_plausible() -> None:
    assert 2**20 < free_memory() < 2**50


def test_a_limit_of_the_process_counts() -> None:
    code = (
        "import resource\n"
        "from onnx_ig.runtime.memory import _fields, free_memory\n"
        "taken = _fields('/proc/self/status')['VmSize:'] * 1024\n"
        "resource.setrlimit(resource.RLIMIT_AS, (taken + 300 * 2**20, -1))\n"
        "print(free_memory())"
    )
    told = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert 200 * 2**20 < told <= 300 * 2**20


def test_watch_sees_what_is_gone_again() -> None:
    count = meter()
    assert count is not None
    with Watch(count) as watch:
        block = np.ones(8_000_000)
        time.sleep(0.05)
        del block
    assert 60_000_000 < watch.grown < 80_000_000


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RunError("ONNX Runtime failed: BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer"),
        RunError("Status Message: std::bad_alloc"),
        RunError("CUDA failure 2: out of memory ; GPU=0"),
    ],
)
def test_errors_of_memory(error: Exception) -> None:
    assert out_of_memory(error)


def test_other_errors() -> None:
    assert not out_of_memory(RunError("Got invalid dimensions for input: x"))
