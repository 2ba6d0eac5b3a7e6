"""Convolutions, pooling, padding, resizing, sampling and Fourier transforms against PyTorch's autograd.

In float64 and, in ONNX Runtime, in float32; the outputs are compared too, so that both mean the same operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.gradcheck import Runner, gradients_of, node_model

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.framework
rng = np.random.default_rng(12)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def compare(
    op: str, feeds: dict[str, Any], function: Callable[..., Any], attributes: dict[str, Any] | None = None,
    *, constants: tuple[str, ...] = (), opset: int = 20, outputs: tuple[str, ...] = ("y",), same_output: bool = True,
    shapes: tuple[str, ...] = ("static", "dynamic"),
) -> None:  # fmt: skip
    """`function` gets the float operands, in order; its autograd is compared at each kind of declared shape."""
    feeds = {n: None if a is None else np.asarray(a) for n, a in feeds.items()}
    wrt = [n for n, a in feeds.items() if a is not None and a.dtype.kind == "f"]
    tensors = {n: torch.tensor(feeds[n], requires_grad=True) for n in wrt}
    y = function(*tensors.values())
    cotangent = rng.standard_normal(tuple(y.shape))
    expected = torch.autograd.grad(y, list(tensors.values()), torch.tensor(cotangent))
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 2e-5)):
        given = {
            n: a.astype(dtype) if a.dtype.kind == "f" else a
            for n, a in feeds.items()
            if a is not None and n not in constants
        }
        for kind in shapes:
            model = node_model(op, feeds, attributes, opset=opset, outputs=outputs, shapes=kind, dtype=dtype,
                               constants=constants)  # fmt: skip
            if same_output:
                output = Runner(model)(given)[0]
                np.testing.assert_allclose(output, y.detach().numpy(), rtol=0, atol=100 * tolerance, err_msg=kind)
            got = gradients_of(model, given, "y", wrt, cotangent.astype(dtype))
            for name, right in zip(wrt, expected, strict=True):
                scale = max(1.0, float(right.abs().max()) if right.numel() else 0.0)
                np.testing.assert_allclose(
                    got[name], right.numpy(), rtol=0, atol=tolerance * scale, err_msg=f"{dtype.__name__} {kind} {name}"
                )


CONVS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@pytest.mark.parametrize("seed", range(12))
def test_conv(seed: int) -> None:
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 4))
    kernel, strides, dilations = ([int(n) for n in random.integers(1, 4, rank)] for _ in range(3))
    pads = [int(n) for n in random.integers(0, 3, rank)]
    group, inner, outer = (int(n) for n in random.integers(1, 3, 3))
    lengths = [d * (k - 1) + 2 + s for d, k, s in zip(dilations, kernel, strides, strict=True)]
    compare(
        "Conv", {"x": floats(2, group * inner, *lengths), "w": floats(group * outer, inner, *kernel), "b": floats(group * outer)},
        lambda x, w, b: CONVS[rank](x, w, b, strides, pads, dilations, group),
        {"strides": strides, "dilations": dilations, "pads": [*pads, *pads], "group": group},
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_conv_transpose(seed: int) -> None:
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 4))
    kernel, strides, dilations, lengths = ([int(n) for n in random.integers(1, 4, rank)] for _ in range(4))
    extra = [int(random.integers(0, s)) for s in strides]
    pads = [(k - 1) * d // 2 for k, d in zip(kernel, dilations, strict=True)]
    group, inner, outer = (int(n) for n in random.integers(1, 3, 3))
    compare(
        "ConvTranspose",
        {"x": floats(2, group * inner, *lengths), "w": floats(group * inner, outer, *kernel), "b": floats(group * outer)},
        lambda x, w, b: TRANSPOSED[rank](x, w, b, strides, pads, extra, group, dilations),
        {
            "strides": strides, "dilations": dilations, "pads": [*pads, *pads], "group": group,
            "output_padding": extra,
        },
    )  # fmt: skip


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("ties", [False, True])
def test_max_pool(dilation: int, ceil: bool, ties: bool) -> None:
    """PyTorch takes the first maximum too."""
    x = rng.integers(0, 4, (2, 3, 8, 9)).astype(float) if ties else floats(2, 3, 8, 9)
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 1], "dilations": [dilation] * 2}
    compare(
        "MaxPool", {"x": x},
        lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 1), dilation, ceil),
        {**attributes, "ceil_mode": int(ceil)},
    )  # fmt: skip


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
def test_average_pool(ceil: bool, counted: bool) -> None:
    compare(
        "AveragePool", {"x": floats(2, 3, 8, 9)},
        lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 1), ceil, counted),
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1] * 4, "ceil_mode": int(ceil), "count_include_pad": int(counted)},
    )  # fmt: skip


def test_global_pools() -> None:
    x = floats(2, 3, 4, 5)
    compare("GlobalAveragePool", {"x": x}, lambda x: F.adaptive_avg_pool2d(x, 1))
    compare("GlobalMaxPool", {"x": x}, lambda x: F.adaptive_max_pool2d(x, 1))
    compare("GlobalLpPool", {"x": x}, lambda x: x.abs().pow(3).sum((2, 3), keepdim=True).pow(1 / 3), {"p": 3})


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p: int) -> None:
    x = rng.uniform(0.5, 2, (2, 3, 7, 6))
    attributes = {"p": p, "kernel_shape": [3, 2], "strides": [2, 2]}
    compare("LpPool", {"x": x}, lambda x: F.lp_pool2d(x, p, (3, 2), (2, 2)), attributes)


@pytest.mark.parametrize(
    ("mode", "torch_mode"),
    [("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular"), ("constant", "constant")],
)
def test_pad(mode: str, torch_mode: str) -> None:
    pads = np.asarray([0, 0, 1, 2, 0, 0, 3, 2], np.int64)
    for constants in (("pads",), ()):
        compare(
            "Pad", {"x": floats(2, 2, 4, 5), "pads": pads},
            lambda x: F.pad(x, (2, 2, 1, 3), torch_mode), {"mode": mode}, constants=constants,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("torch_mode", "align", "attributes"),
    [
        ("nearest", None, {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ("nearest-exact", None, {"mode": "nearest", "coordinate_transformation_mode": "half_pixel",
                                 "nearest_mode": "round_prefer_ceil"}),
        ("bilinear", False, {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
        ("bilinear", True, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ("bicubic", False, {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}),
        ("bicubic", True, {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [(8, 10), (7, 3), (4, 15)])
def test_resize(size: tuple[int, int], torch_mode: str, align: bool | None, attributes: dict[str, Any]) -> None:
    """`onnx.reference` weighs some of these otherwise in float64, so its output is not compared."""
    feeds = {"x": floats(2, 2, 4, 5), "roi": None, "scales": None, "sizes": np.asarray([2, 2, *size], np.int64)}
    x = torch.tensor(feeds["x"], requires_grad=True)
    y = F.interpolate(x, size, mode=torch_mode, align_corners=align)
    cotangent = rng.standard_normal(tuple(y.shape))
    (right,) = torch.autograd.grad(y, [x], torch.tensor(cotangent))
    for kind in ("static", "dynamic"):
        model = node_model("Resize", feeds, {**attributes, "cubic_coeff_a": -0.75}, constants=("sizes",), shapes=kind,
                           dtype=np.float32)  # fmt: skip
        given = {"x": feeds["x"].astype(np.float32)}
        np.testing.assert_allclose(Runner(model)(given)[0], y.detach().numpy(), atol=1e-4)
        got = gradients_of(model, given, "y", ["x"], cotangent.astype(np.float32))["x"]
        np.testing.assert_allclose(got, right.numpy(), atol=1e-4)


def test_pixel_shuffle() -> None:
    compare(
        "DepthToSpace", {"x": floats(2, 12, 3, 2)}, lambda x: F.pixel_shuffle(x, 2), {"blocksize": 2, "mode": "CRD"}
    )


def test_max_unpool() -> None:
    x, i = F.max_pool2d(torch.tensor(floats(2, 2, 6, 4)), 2, return_indices=True)
    whole = i + 24 * torch.arange(4).reshape(2, 2, 1, 1)
    compare(
        "MaxUnpool", {"x": x.numpy(), "i": whole.numpy()}, lambda x: F.max_unpool2d(x, i, 2),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    )  # fmt: skip


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "torch_mode"), [("linear", "bilinear"), ("cubic", "bicubic"), ("nearest", "nearest")])
def test_grid_sample(mode: str, torch_mode: str, padding: str, align: bool) -> None:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": int(align)}
    feeds = {"x": floats(2, 3, 4, 5), "grid": rng.uniform(-1.4, 1.4, (2, 3, 6, 2))}
    if mode == "nearest":  # PyTorch gives zeros for the grid, we say that nothing flows
        grid = torch.tensor(feeds["grid"])
        feeds_x = {"x": feeds["x"], "grid": feeds["grid"].astype(np.float32)}
        model = node_model("GridSample", feeds_x, attributes, dtype=np.float32)
        x = torch.tensor(feeds["x"], requires_grad=True)
        y = F.grid_sample(x, grid, torch_mode, padding, align)
        cotangent = rng.standard_normal(tuple(y.shape))
        (right,) = torch.autograd.grad(y, [x], torch.tensor(cotangent))
        given = {n: a.astype(np.float32) for n, a in feeds.items()}
        got = gradients_of(model, given, "y", ["x"], cotangent.astype(np.float32))["x"]
        np.testing.assert_allclose(got, right.numpy(), atol=1e-5)
        return
    compare("GridSample", feeds, lambda x, grid: F.grid_sample(x, grid, torch_mode, padding, align), attributes)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_in_three_axes(padding: str, align: bool) -> None:
    compare(
        "GridSample", {"x": floats(1, 2, 3, 4, 5), "grid": rng.uniform(-1.4, 1.4, (1, 2, 3, 2, 3))},
        lambda x, grid: F.grid_sample(x, grid, "bilinear", padding, align),
        {"padding_mode": padding, "align_corners": int(align)},
    )  # fmt: skip


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 2, 4)])
def test_affine_grid(size: tuple[int, ...], align: bool) -> None:
    rank = len(size) - 2
    compare(
        "AffineGrid", {"theta": floats(2, rank, rank + 1), "size": np.asarray(size, np.int64)},
        lambda theta: F.affine_grid(theta, list(size), align), {"align_corners": int(align)}, constants=("size",),
    )  # fmt: skip


def test_fold() -> None:
    sizes = {"image": np.asarray([7, 6], np.int64), "block": np.asarray([2, 3], np.int64)}
    attributes = {"pads": [0, 1, 0, 1], "strides": [1, 2], "dilations": [3, 1]}
    compare(
        "Col2Im", {"x": floats(2, 3 * 6, 12), **sizes},
        lambda x: F.fold(x, (7, 6), (2, 3), padding=(0, 1), stride=(1, 2), dilation=(3, 1)), attributes,
        constants=("image", "block"),
    )  # fmt: skip
    compare("Col2Im", {"x": floats(2, 3 * 6, 24), **sizes}, lambda x: F.fold(x, (7, 6), (2, 3)))


@pytest.mark.parametrize("n", [6, 7])
def test_fourier_transforms(n: int) -> None:
    feeds = {"x": floats(2, n, 1)}
    compare("DFT", feeds, lambda x: torch.view_as_real(torch.fft.fft(x[..., 0])))
    compare("DFT", feeds, lambda x: torch.view_as_real(torch.fft.rfft(x[..., 0])), {"onesided": 1})
    feeds = {"x": floats(2, n, 2)}
    compare("DFT", feeds, lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))))
    compare("DFT", feeds, lambda x: torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x))), {"inverse": 1})
    half = {"x": floats(2, n // 2 + 1, 2), "n": np.asarray(n, np.int64)}
    compare(
        "DFT", half, lambda x: torch.fft.irfft(torch.view_as_complex(x), n)[..., None], {"inverse": 1, "onesided": 1},
        constants=("n",),
    )  # fmt: skip


def test_stft() -> None:
    feeds = {"x": floats(2, 20, 1), "step": np.asarray(3, np.int64), "window": rng.uniform(0.2, 1, 8)}

    def transform(x: Any, window: Any) -> Any:
        spectrum = torch.stft(x[..., 0], 8, 3, window=window, center=False, return_complex=True)
        return torch.view_as_real(spectrum.transpose(1, 2))

    compare("STFT", feeds, transform, constants=("step",))
