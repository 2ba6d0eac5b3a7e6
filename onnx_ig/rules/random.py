"""Random operators.

What they draw does not follow their operand smoothly: RandomNormalLike and RandomUniformLike read its shape only, and a
sample of Bernoulli or Multinomial, for a fixed draw, is piecewise constant in the probabilities. So the derivative is 0.
"""

from __future__ import annotations

from onnx_ig.rules.registry import declare_zero

declare_zero("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial")
