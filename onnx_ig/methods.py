"""The table of methods: a method is an oracle (rule set) x a path x what is folded over the steps x a finish."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_ig.arguments import check_word

__all__ = ["METHODS", "Method", "method_named"]


@dataclass(frozen=True)
class Method:
    """How attributions are put together.

    `rules`     the rule set of the oracle.
    `path`      where gradients are taken: "line" (alphas between baseline and input), "end" (at the input only),
                "points" (an array of points given by the caller), "references" (a line from each of R references), or
                "comparison" (at the input, against a second forward pass on the baseline).
    `factor`    what the folded signal is multiplied with: "difference" (x - baseline), "input" (x), "increment" (each
                step's own move along the path) or "one".
    `curves`    also gives score and gradient norm at every step, [N, m].
    `complete`  attributions sum to F(x) - F(baseline).
    `source`    where it is defined.
    """

    name: str
    rules: str
    path: str
    factor: str
    complete: bool
    source: str
    curves: bool = False


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method(
            "integrated_gradients", "gradient", "line", "difference", True,
            "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017, section 3",
        ),
        Method(
            "gradient", "gradient", "end", "one", False,
            "Simonyan, Vedaldi, Zisserman: Deep Inside Convolutional Networks, 2013 (signed)",
        ),
        Method(
            "gradient_x_input", "gradient", "end", "input", False,
            "Shrikumar et al.: Not Just a Black Box, 2016",
        ),
        Method(
            "path_integrated_gradients", "gradient", "points", "increment", True,
            "Axiomatic Attribution for Deep Networks, section 4 (path methods)",
        ),
        Method(
            "interior_gradients", "gradient", "line", "difference", True,
            "Sundararajan, Taly, Yan: Gradients of Counterfactuals, 2016", curves=True,
        ),
        Method(
            "expected_gradients", "gradient", "references", "difference", True,
            "Erion et al.: Improving performance of deep learning models with axiomatic attribution priors, 2021, "
            "with the expectation over references taken exactly and the integral over alpha by quadrature",
        ),
        Method(
            "guided_backprop", "guided_backprop", "end", "one", False,
            "Springenberg et al.: Striving for Simplicity, 2014",
        ),
        Method(
            "deeplift", "deeplift", "comparison", "difference", True,
            "Shrikumar, Greenside, Kundaje: Learning Important Features Through Propagating Activation Differences, "
            "2017, Rescale rule",
        ),
    )
}  # fmt: skip


def method_named(name: str) -> Method:
    """Raises OptionError for a name that is not one of METHODS."""
    check_word(name, METHODS, "method")
    return METHODS[name]
