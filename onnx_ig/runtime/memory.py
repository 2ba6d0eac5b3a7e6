"""How much memory there is, how much is used, and whether a run failed for want of it."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import Any

from onnx_ig.errors import OptionError

__all__ = ["Watch", "bytes_of", "free_memory", "meter", "out_of_memory"]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_UNKNOWN = 4 * 2**30
"""What is taken to be free where the system does not say."""

_SIGNS = (
    "bad_alloc", "failed to allocate", "out of memory", "cuda_error_out_of_memory", "not enough memory", "alloc_failed",
    "smaller than requested bytes",  # an arena with a limit, as CUDA's gpu_mem_limit
)  # fmt: skip

Meter = Callable[[], int]
"""Bytes in use now."""


def bytes_of(size: Any) -> int | None:
    """Bytes of 2_000_000_000, "2GB", "500 MB" or "1.5GiB"; None of None. Raises OptionError for anything else.

    Bytes are a whole number of at least 1, also where a fraction of a unit is given.
    """
    if size is None:
        return None
    count = 0.0
    if isinstance(size, str):
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(|[KMGT]|[KMGT]I)B?\s*", size.upper())
        if found is not None:
            count = float(found[1]) * _UNITS[found[2]]
            count = count // 1 if found[2] else count
    elif isinstance(size, Real) and size is not True:
        count = float(size)
    if count < 1 or not count.is_integer():
        raise OptionError(
            f"memory_budget={size!r}: a whole number of bytes, or a text such as '2GB' or '500MB', is needed"
        )
    return int(count)


def free_memory(providers: Sequence[str] = ()) -> int:
    """Bytes that can be had now: of the device under CUDA, else of what machine, container and process allow."""
    if _on_cuda(providers):
        device = _cuda_memory()
        if device is not None:
            return device[0]
    limits = [n for n in (_available(), _left_in_container(), _left_in_process()) if n is not None]
    return max(min(limits, default=_UNKNOWN), 0)


def meter(providers: Sequence[str] = ()) -> Meter | None:
    """What counts the memory that runs take: device memory under CUDA, else resident memory; None where neither is told."""
    if _on_cuda(providers):
        return _cuda_used if _cuda_memory() is not None else None
    return _resident if Path("/proc/self/statm").exists() else None


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, in numpy, in ONNX Runtime's arena or on the device."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


class Watch:
    """The most that a meter shows while a block runs, beyond `start`, in bytes: `.grown`.

    Looks every millisecond, in a thread: ONNX Runtime leaves Python's lock while it runs.
    """

    def __init__(self, count: Meter, start: int | None = None):
        self._count = count
        self._start = count() if start is None else start
        self._most = self._start
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @property
    def grown(self) -> int:
        return self._most - self._start

    def _look(self) -> None:
        while not self._over.wait(0.001):
            self._most = max(self._most, self._count())

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._most = max(self._most, self._count())


def _on_cuda(providers: Sequence[str]) -> bool:
    return bool(providers) and providers[0] in ("CUDAExecutionProvider", "TensorrtExecutionProvider")


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _page()


@cache
def _page() -> int:
    return int(os.sysconf("SC_PAGE_SIZE"))


def _available() -> int | None:
    """Memory of the machine that is free or can be freed."""
    told = _fields("/proc/meminfo")
    if "MemAvailable:" in told:
        return told["MemAvailable:"] * 1024
    if not hasattr(os, "sysconf"):
        return None
    try:
        return int(os.sysconf("SC_PHYS_PAGES")) * _page() // 2
    except (ValueError, OSError):
        return None


def _left_in_container() -> int | None:
    """What the control group still allows; pages of files that it could drop count as free."""
    for limit, used, stat, dropped in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ):
        root = Path("/sys/fs/cgroup")
        try:
            most, now = int((root / limit).read_text()), int((root / used).read_text())
        except (OSError, ValueError):
            continue
        return most - now + _fields(root / stat).get(dropped, 0)
    return None


def _left_in_process() -> int | None:
    """What `ulimit -v` still allows."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    taken = _fields("/proc/self/status").get("VmSize:")
    return None if limit == resource.RLIM_INFINITY or taken is None else limit - taken * 1024


def _fields(path: str | Path) -> dict[str, int]:
    """Lines of a name and a number."""
    try:
        lines = [line.split() for line in Path(path).read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


@cache
def _cuda_runtime() -> Any:
    """The CUDA runtime that ONNX Runtime has loaded; None where there is none."""
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so", "cudart64_13.dll", "cudart64_12.dll"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _cuda_memory() -> tuple[int, int] | None:
    """(free, total) of the current device."""
    runtime = _cuda_runtime()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if runtime is None or runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) != 0:
        return None
    return free.value, total.value


def _cuda_used() -> int:
    free, total = _cuda_memory() or (0, 0)
    return total - free
