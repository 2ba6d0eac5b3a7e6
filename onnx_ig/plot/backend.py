"""matplotlib, imported when the first picture is drawn, and without its global state of figures."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from onnx_ig.errors import MissingDependencyError, OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["axes_for", "colours_module", "figure_of", "label", "new_figure"]

_ADVICE = "pictures need matplotlib, which is not installed: pip install 'onnx_ig[plot]'"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to the caller alone.

    Raises MissingDependencyError without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(_ADVICE) from error
    return Figure(figsize=(width, height), layout="constrained")


def colours_module() -> ModuleType:
    """`matplotlib.colors`. Raises MissingDependencyError without matplotlib."""
    try:
        import matplotlib.colors
    except ImportError as error:
        raise MissingDependencyError(_ADVICE) from error
    return matplotlib.colors


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """`ax`, or the axes of a new figure."""
    return ax if ax is not None else new_figure(width, height).add_subplot()


def label(text: Any) -> Any:
    """Show a text as it is: a dollar sign in a class name is no formula."""
    text.set_parse_math(False)
    return text


def figure_of(ax: Axes) -> Figure:
    """The figure that the axes are in."""
    from matplotlib.figure import Figure

    figure = ax.get_figure(root=True)
    if not isinstance(figure, Figure):
        raise OptionError("the axes given belong to no figure")
    return figure
