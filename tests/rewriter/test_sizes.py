"""Sizes that a one-file model declares are the sizes that it has."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import onnx_ig

PARTS = range(12)
POLYNOMIAL = f"""
<ir_version: 10, opset_import: ["": 18]>
polynomial (float[?, 4] x) => (float[?, 2] y)
<int64[1] axis = {{1}}, {", ".join(f"int64[3] i{k} = {{{k % 2}, {k % 3}, {k % 4}}}" for k in PARTS)},
 float[13, 2] w = {{{", ".join(str(k % 5 - 2.0) for k in range(26))}}}>
{{
    {" ".join(f"c{k} = Gather <axis: int = 1> (x, i{k}) p{k} = ReduceProd (c{k}, axis)" for k in PARTS)}
    sizes = Shape (p{PARTS[-1]})
    one = ConstantOfShape <value: tensor = float[1] {{1}}> (sizes)
    terms = Concat <axis: int = 1> (one, {", ".join(f"p{k}" for k in PARTS)})
    z = MatMul (terms, w)
    y = Softmax <axis: int = -1> (z)
}}
"""


@pytest.mark.parametrize("loop", ["batched", "looped"])
@pytest.mark.parametrize("rows", [1, 3])
def test_declared_sizes_hold(loop: str, rows: int) -> None:
    """The names of open sizes too: runtimes let values of one declared shape share memory."""
    model = onnx_ig.rewrite(onnx.parser.parse_model(POLYNOMIAL), n_steps=5, loop=loop)
    x = np.arange(1, 4 * rows + 1, dtype=np.float32).reshape(rows, 4)
    told = {v.name: v for v in model.graph.value_info}
    outputs = {v.name for v in model.graph.output}
    computed = [o for n in model.graph.node for o in n.output if o in told and o not in outputs]
    model.graph.output.extend(told[name] for name in computed)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_reuse = False
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in model.graph.output]
    sizes: dict[str, set[int]] = {}
    for name, value in zip(names, session.run(names, {"x": x}), strict=True):
        declared = (told.get(name) or next(o for o in model.graph.output if o.name == name)).type.tensor_type.shape.dim
        assert len(declared) == np.ndim(value), name
        for dim, size in zip(declared, np.shape(value), strict=True):
            if dim.dim_param:
                sizes.setdefault(dim.dim_param, set()).add(size)
            elif dim.HasField("dim_value"):
                assert dim.dim_value == size, name
    assert {k: v for k, v in sizes.items() if len(v) > 1} == {}
