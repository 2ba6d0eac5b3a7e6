"""Nodes that are not written out, and why."""

from __future__ import annotations

from onnx_ig.graph.fused.table import ML, Fused, Unexpanded, fused


@fused("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", domain=ML)
def tree_ensemble(f: Fused) -> None:
    """Constant between thresholds."""
    raise Unexpanded(
        "trees are piecewise constant, so their derivative is zero wherever it exists and says nothing",
        "Explain it by perturbation: occlusion, permutation importance, Shapley sampling, or a tree explainer.",
    )


@fused(
    "AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput", "Upsample",
    domain="com.microsoft.nchwc",
)  # fmt: skip
def blocked_layout(f: Fused) -> None:
    """Channels in blocks of the width of one machine's registers."""
    raise Unexpanded(
        "the file holds weights and data in a blocked layout (NCHWc) that ONNX Runtime chose for one kind of processor",
        "Use the model from before optimisation, or save it at optimisation level EXTENDED or lower; ONNX Runtime blocks "
        "the layout again by itself when it loads the result.",
    )
