"""ONNX Runtime sessions: finding the package, choosing providers, opening models, running them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from onnx_ig.errors import MissingDependencyError, OnnxIgWarning, OptionError, RunError

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Providers", "Session", "onnxruntime_module"]

Array: TypeAlias = npt.NDArray[Any]
Providers: TypeAlias = "str | Sequence[str | tuple[str, dict[str, Any]]] | None"

_warned = False


def onnxruntime_module() -> Any:
    """The onnxruntime package.

    Raises MissingDependencyError naming the extras where it is not installed; warns once where both distributions are
    (they overwrite each other's files).
    """
    global _warned
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingDependencyError(
            "running models needs ONNX Runtime: pip install 'onnx_ig[cpu]' (or 'onnx_ig[gpu]' for CUDA)"
        )
    if not _warned:
        _warned = True
        if all(map(_installed, ("onnxruntime", "onnxruntime-gpu"))):
            warnings.warn(
                "both onnxruntime and onnxruntime-gpu are installed and overwrite each other's files; uninstall both and "
                "install one: pip install 'onnx_ig[cpu]' or 'onnx_ig[gpu]'",
                OnnxIgWarning,
                stacklevel=3,
            )
    import onnxruntime

    return onnxruntime


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


class Session:
    """One model in one ONNX Runtime session.

    Args:
        model: a path, or the model's bytes.
        providers: as `onnxruntime.InferenceSession` takes them, or the name of one; None is CUDA where the package has
            it, and CPU.
        session_options: an `onnxruntime.SessionOptions`; None is the default with warnings of the log left out, and
            without memory patterns, which hold a block for every number of rows that a session has seen.

    Raises:
        MissingDependencyError: ONNX Runtime is not installed.
        OptionError: a provider is not available, or `providers` or `session_options` are none.
        RunError: ONNX Runtime refuses the model.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        providers: Providers = None,
        session_options: onnxruntime.SessionOptions | None = None,
    ):
        ort = onnxruntime_module()
        available = ort.get_available_providers()
        chosen = _chosen(providers, available)
        names = [p if isinstance(p, str) else p[0] for p in chosen]
        unknown = [n for n in names if n not in available]
        if unknown:
            raise OptionError(
                f"execution provider {unknown[0]!r} is not available; this onnxruntime has {', '.join(available)}"
            )
        options = session_options
        if options is not None and not isinstance(options, ort.SessionOptions):
            raise OptionError(f"session_options={options!r}: an onnxruntime.SessionOptions is needed")
        if options is None:
            options = ort.SessionOptions()
            options.log_severity_level = 3
            options.enable_mem_pattern = False
        source = model if isinstance(model, bytes) else os.fspath(model)
        try:
            self._session = ort.InferenceSession(source, options, providers=chosen)
        except Exception as error:
            told = _first_line(error)
            if "not a registered function/op" in told:
                told += "; give session_options= with register_custom_ops_library, or a model without the operator"
            raise RunError(f"ONNX Runtime cannot load the model: {told}") from error
        self.inputs: dict[str, Any] = {i.name: i for i in self._session.get_inputs()}
        self.outputs: list[str] = [o.name for o in self._session.get_outputs()]
        self.shapes: dict[str, list[int | str | None]] = {o.name: o.shape for o in self._session.get_outputs()}
        self.metadata: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        self.providers: list[str] = self._session.get_providers()
        self.learned: dict[Hashable, Any] = {}
        self.runs = 0
        self.threads: int = options.intra_op_num_threads or os.cpu_count() or 1
        self._run_options = ort.RunOptions()
        self._run_options.log_severity_level = 4  # what fails is raised
        self._arena = _arena(options, self._session, self.providers)
        self._device = _device(self._session, self.providers)

    @property
    def on_cpu(self) -> bool:
        """Whether runs take the memory of the machine, not that of a device."""
        return self.providers[0] not in _DEVICES

    def tidy(self) -> None:
        """Give what the arena holds unused back after every further run: for when memory has run out."""
        arenas, self._arena = self._arena, ""
        if arenas:
            self._run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", arenas)

    def place(self, feeds: Mapping[str, Array]) -> dict[str, Any]:
        """Feeds for several runs, on the device already where there is one."""
        if self._device is None:
            return dict(feeds)
        make = onnxruntime_module().OrtValue.ortvalue_from_numpy
        name, number = self._device
        return {n: make(np.asarray(a, order="C"), name, number) for n, a in feeds.items() if n in self.inputs}

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run once; feeds that the model does not take are left out. Raises RunError where ONNX Runtime fails."""
        names = list(outputs) if outputs is not None else self.outputs
        given = {n: a for n, a in feeds.items() if n in self.inputs}
        value = onnxruntime_module().OrtValue
        try:
            if any(isinstance(a, value) for a in given.values()):
                placed = {
                    n: a if isinstance(a, value) else value.ortvalue_from_numpy(np.asarray(a, order="C"))
                    for n, a in given.items()
                }
                arrays = [v.numpy() for v in self._session.run_with_ort_values(names, placed, self._run_options)]
            else:
                given = {n: np.asarray(a, order="C") for n, a in given.items()}
                arrays = self._session.run(names, given, self._run_options)
        except MemoryError:
            raise
        except Exception as error:
            raise RunError(f"ONNX Runtime failed while running the model: {_first_line(error)}") from error
        self.runs += 1
        return dict(zip(names, arrays, strict=True))


def _chosen(providers: Any, available: Sequence[str]) -> list[Any]:
    """The providers asked for as a list, CUDA and CPU where they are there by default. Raises OptionError."""
    if providers is None:
        return [p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in available]
    chosen = [providers] if isinstance(providers, str) else list(providers) if isinstance(providers, Sequence) else []
    for one in chosen:
        pair = isinstance(one, tuple | list) and len(one) == 2 and isinstance(one[1], Mapping)
        if not isinstance(one, str) and not (pair and isinstance(one[0], str)):
            chosen = []
    if not chosen:
        raise OptionError(
            f"providers={providers!r}: give a name, or a list of names or (name, options), of {', '.join(available)}"
        )
    return chosen


_DEVICES = {"CUDAExecutionProvider": "gpu", "TensorrtExecutionProvider": "gpu"}


def _device(session: Any, providers: Sequence[str]) -> tuple[str, int] | None:
    """(kind, number) of the device that feeds are to be placed on."""
    if providers[0] not in _DEVICES:
        return None
    return "cuda", int(session.get_provider_options().get(providers[0], {}).get("device_id", 0))


def _arena(options: Any, session: Any, providers: Sequence[str]) -> str:
    """The arenas of a session, as the run option that shrinks them names them."""
    device = _device(session, providers)
    arenas = ["cpu:0"] if options.enable_cpu_mem_arena else []
    return ";".join([*([f"gpu:{device[1]}"] if device is not None else []), *arenas])


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
