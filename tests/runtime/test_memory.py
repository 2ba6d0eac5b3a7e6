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
        ("10", 10), ("3k", 3000), (None, None), (2e9, 2 * 10**9), (1e18, 10**18), (np.int64(7), 7), ("0.3333KB", 333),
    ],
)  # fmt: skip
def test_sizes(text: object, size: int | None) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "", "much", "2XB", "-1", 0, "0GB", True, "1e9GBB", 1.5, "1.5", "1.5B", 0.5, "0.0001KB", -2, np.nan, np.inf, b"2GB",
        [1],
    ],
)  # fmt: skip
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
        RunError("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED"),
    ],
)
def test_errors_of_memory(error: Exception) -> None:
    assert out_of_memory(error)


def test_other_errors() -> None:
    assert not out_of_memory(RunError("Got invalid dimensions for input: x"))


LIMITED_ARENA = """
import numpy as np, onnxruntime as ort
from onnx_ig import Explainer
from tests.explain.nets import convolutional
limit = ort.OrtArenaCfg(
    {"max_mem": 2**24, "arena_extend_strategy": 1, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1}
)
where = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(where, limit)
options = ort.SessionOptions()
options.intra_op_num_threads = 1
x = np.random.default_rng(0).standard_normal((3, 3, 64, 64)).astype(np.float32)
wanted = Explainer(convolutional(size=64, channels=32), session_options=options).attribute(x, n_steps=16, target=0)
options.add_session_config_entry("session.use_env_allocators", "1")
got = Explainer(convolutional(size=64, channels=32), session_options=options).attribute(
    x, n_steps=16, target=0, internal_batch_size=48
)
print(np.abs(got["x"] - wanted["x"]).max() <= 1e-6 * np.abs(wanted["x"]).max(), got.gradients, *got.notes)
"""


def test_an_arena_with_a_limit_that_is_reached() -> None:
    """As CUDA's gpu_mem_limit is: another message than that of a machine without memory."""
    done = subprocess.run([sys.executable, "-c", LIMITED_ARENA], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True 48 memory ran out with"), done.stdout
