"""Running a one-file model that `onnx_ig.rewrite` wrote: `load(path).run(feeds)`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_ig.arguments import check_count, is_whole
from onnx_ig.errors import FeedError, ModelError, OptionError
from onnx_ig.manifest import Manifest, read
from onnx_ig.runtime.feeds import check_feeds, check_ids, ports_of, samples_in
from onnx_ig.runtime.result import Attribution
from onnx_ig.runtime.session import Array, Providers, Session
from onnx_ig.runtime.sizing import split_of
from onnx_ig.runtime.steps import run_rows
from onnx_ig.runtime.targets import check_target

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["ServedModel", "load"]


def load(
    path: str | os.PathLike[str] | bytes,
    providers: Providers = None,
    session_options: onnxruntime.SessionOptions | None = None,
) -> ServedModel:
    """Open a model that `onnx_ig.rewrite` wrote; needs onnxruntime and numpy alone.

    Raises ModelError where there is no such file or it has no `onnx_ig.manifest`, MissingDependencyError without ONNX
    Runtime, OptionError for a provider that is not available.
    """
    remedy = "; give its SerializeToString(), or write it with save_as=" if hasattr(path, "SerializeToString") else ""
    if not isinstance(path, bytes | str | os.PathLike):
        raise ModelError(f"a rewritten model is a path or the bytes of its file, not {type(path).__name__}{remedy}")
    if not isinstance(path, bytes) and not os.path.isfile(path):
        what = "is a folder; give the .onnx file in it" if os.path.isdir(path) else "is no file"
        raise ModelError(f"{os.fspath(path)!r} {what}")
    return ServedModel(Session(path, providers, session_options))


class ServedModel:
    """A rewritten model in a session, as `load` opens it.

    `manifest` says what it computes (an `onnx_ig.manifest.Manifest`), `labels` the names of its classes or None, `inputs`
    what is to be fed: {name: a `Port` of type and shape}. Raises ModelError for a model that was not rewritten.
    """

    def __init__(self, session: Session):
        self._session = session
        described = read(session.metadata)
        if described.manifest is None:
            raise ModelError("the model has no onnx_ig.manifest; make one with onnx_ig.rewrite or `onnx-ig rewrite`")
        self.manifest: Manifest = described.manifest
        self.labels = described.labels
        self.inputs = ports_of(session.inputs)
        told = self.manifest.notes.get("ids", {})
        self._ids = {name: n for name, n in told.items() if is_whole(n)} if isinstance(told, Mapping) else {}

    def run(
        self,
        feeds: Mapping[str, Any] | Any,
        internal_batch_size: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        *,
        memory_budget: int | str | None = None,
    ) -> Attribution:
        """Attributions of every sample fed, the same kind of result that `Explainer.attribute` gives.

        `feeds` also holds `target` and `<x>_baseline` where the model takes them. `internal_batch_size` samples go into
        one run; None measures runs of 1, 2, 4 ... samples and stays within `memory_budget` (bytes, or "2GB"; default:
        half of what is free). A run that fails for want of memory is halved, and what is done kept.
        `progress` is called with (samples done, samples in all).

        Raises:
            FeedError: what is fed does not fit the model: names, shapes, types, NaN, ids beyond their table.
            OptionError: an argument is wrong, or `target` is out of range.
            RunError: the runtime failed.
        """
        if internal_batch_size is not None:
            check_count(internal_batch_size, "internal_batch_size")
        if progress is not None and not callable(progress):
            raise OptionError(f"progress={progress!r}: a function of (done, all) is needed")
        given = check_feeds(self.inputs, feeds)
        axes = dict.fromkeys(self.inputs, 0 if self.manifest.batchable else None)
        check_ids(given, self._ids, axes)
        n = samples_in(given, axes) if self.manifest.batchable else 1
        if n == 0:
            raise FeedError("the feeds hold no samples")
        self._check_target(given, n)
        if not self.manifest.batchable:
            return self._result(self._session.run(given), given)
        split = split_of(internal_batch_size, None, memory_budget, self._session)
        gives = dict.fromkeys(self._session.outputs, 0)
        result = self._result(run_rows(self._session, given, axes, gives, n, split, None, progress), given)
        result.notes += tuple(split.notes.values())
        return result

    def _check_target(self, feeds: Mapping[str, Array], n: int) -> None:
        """Refuse a `target` that is fed and out of range; the model fails there too, in the words of its runtime."""
        dims = self._session.shapes.get(self.manifest.output)
        if self.manifest.target != "input" or not dims:  # a scalar or of unknown rank
            return
        batched = next(iter(self.manifest.inputs.values())).batch_axis is not None
        shape = [d if isinstance(d, int) else None for d in dims]
        check_target(
            feeds[self.manifest.names.get("target", "target")],
            [n, *shape[1:]] if batched else shape,
            0 if batched else None,
        )

    def _result(self, found: Mapping[str, Array], feeds: dict[str, Array]) -> Attribution:
        manifest, names = self.manifest, self.manifest.names
        index = found[names.get("attributed_target", "attributed_target")]
        delta = found[names.get("convergence_delta", "convergence_delta")].astype(np.float64).reshape(-1)
        attributions = {name: found[i.attribution] for name, i in manifest.inputs.items()}
        own = {i.attribution for i in manifest.inputs.values()} | {
            names.get(n, n) for n in ("attributed_target", "convergence_delta")
        }
        outputs = {k: v for k, v in found.items() if k not in own}
        prediction = self._prediction(outputs, index, len(delta))
        total = np.zeros(len(delta))
        for name, array in attributions.items():
            axis = manifest.inputs[name].batch_axis
            wide = array.astype(np.float64)
            total += wide.sum() if axis is None else wide.sum(axis=tuple(a for a in range(wide.ndim) if a != axis))
        return Attribution(
            attributions=attributions, prediction=prediction, baseline_prediction=prediction - (total - delta),
            convergence_delta=delta, outputs=outputs, target=index, method=manifest.method, output=manifest.output,
            n_steps=manifest.n_steps, quadrature=manifest.quadrature, feeds=feeds, labels=self.labels,
            gradients=(manifest.n_steps or 1) * len(delta), forwards=2 * len(delta),
            axes={name: i.batch_axis for name, i in manifest.inputs.items()},
            notes=() if manifest.batchable else (f"the feeds are one sample, one step a run: {manifest.reason}",),
        )  # fmt: skip

    def _prediction(self, outputs: Mapping[str, Array], index: Array, n: int) -> Array:
        """The score of the target, [N]; NaN where the explained value is internal and so not among the outputs."""
        output = outputs.get(self.manifest.output)
        if output is None:
            return np.full(n, np.nan)
        batched = next(iter(self.manifest.inputs.values())).batch_axis is not None
        rows = output.astype(np.float64) if batched else output.astype(np.float64)[None]
        if rows.ndim - 1 > index.shape[1]:  # of unknown rank in the file: the index goes into all entries as one axis
            rows = rows.reshape(n, -1)
        return rows if rows.ndim == 1 else np.asarray(rows[(np.arange(n), *index.T[: rows.ndim - 1])])
