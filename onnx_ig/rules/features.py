"""What scikit-learn's exporters write that has no derivative but zero: thresholds and tables of keys."""

from __future__ import annotations

from onnx_ig.rules.registry import declare_zero

declare_zero("Binarizer", "CategoryMapper", "LabelEncoder", "OneHotEncoder", domain="ai.onnx.ml")
