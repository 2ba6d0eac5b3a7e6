"""Random configurations of windows for the tests of convolutions and pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["conv_configuration", "pool_configuration"]


def conv_configuration(seed: int) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """Attributes, lengths and kernel such that every axis holds at least one window."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel, strides, dilations = (rng.integers(1, 4, rank) for _ in range(3))
    extent = (kernel - 1) * dilations + 1
    pads = rng.integers(0, 3, 2 * rank)
    lengths = np.maximum(1, extent - pads[:rank] - pads[rank:]) + rng.integers(0, 4, rank)
    attributes = {"strides": strides.tolist(), "dilations": dilations.tolist(), "pads": pads.tolist()}
    return attributes, tuple(lengths.tolist()), tuple(kernel.tolist())


def pool_configuration(seed: int) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Attributes and lengths: pads below the kernel, as runtimes ask, every window with a position inside x; ceil_mode,
    auto_pad and dilations vary.
    """
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel, strides, dilations = (rng.integers(1, 4, rank) for _ in range(3))
    attributes: dict[str, Any] = {"kernel_shape": kernel.tolist(), "strides": strides.tolist()}
    auto_pad = rng.choice(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    pads = np.zeros(2 * rank, int)
    if auto_pad == "NOTSET":
        attributes["dilations"] = dilations.tolist()
        pads = rng.integers(0, np.concatenate([kernel, kernel]))
        attributes["pads"] = pads.tolist()
        attributes["ceil_mode"] = int(rng.integers(0, 2))
    else:
        attributes["auto_pad"] = str(auto_pad)
        dilations = np.ones(rank, int)
        strides = np.minimum(strides, kernel)  # runtimes disagree beyond
        attributes["strides"] = strides.tolist()
    lengths = (kernel - 1) * dilations + 1 + rng.integers(0, 4, rank)
    return attributes, tuple(lengths.tolist())
