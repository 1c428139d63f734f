"""The figures of a run by name (T26). Altair is loaded by the first one that is asked for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ensemble_notebook.errors import MissingPackageError, ValidationError, did_you_mean
from ensemble_notebook.errors.pickling import Pickled
from ensemble_notebook.trace.frames import Frames

if TYPE_CHECKING:
    import altair as alt

GROUPS: Final = ("agent", "task", "phase", "model")


class Plots(Pickled):
    """Figures of one run; each is an Altair chart, which can be changed, joined with others, and saved.

    In JupyterLab a figure is drawn by the page, offline and in its theme. Beside it stands a picture for pages that
    can't draw, where `vl-convert-python` is installed; ``chart.save("file.png")`` needs that, too.

    Raises:
        MissingPackageError: each figure, where Altair is not installed.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def tokens(self, by: str = "agent") -> alt.LayerChart:
        """Tokens that went in and out, one bar for each `by`: agent, task, phase or model. Failed requests count.

        Raises:
            ValidationError: there is nothing of this name to group by.
        """
        _check(by)
        from ensemble_notebook.trace.figures import draw_tokens

        return draw_tokens(self._frames, by)

    def cost(self, by: str = "agent") -> alt.LayerChart:
        """What requests cost, one bar for each `by`: agent, task, phase or model. Says how many prices are unknown.

        Raises:
            ValidationError: there is nothing of this name to group by.
        """
        _check(by)
        from ensemble_notebook.trace.figures import draw_cost

        return draw_cost(self._frames, by)

    def waterfall(self) -> alt.LayerChart:
        """When each task ran, and what it did meanwhile: model requests, tools, waits; and the longest chain."""
        _check()
        from ensemble_notebook.trace.figures import draw_waterfall

        return draw_waterfall(self._frames)

    def concurrency(self) -> alt.LayerChart:
        """How many requests, tools and reviews were in flight over time, and how many tasks."""
        _check()
        from ensemble_notebook.trace.figures import draw_concurrency

        return draw_concurrency(self._frames)

    def __repr__(self) -> str:
        """What there is."""
        names = [name for name in vars(type(self)) if not name.startswith("_")]
        return f"Plots({', '.join(names)})"


def _check(by: str = GROUPS[0]) -> None:
    if by not in GROUPS:
        raise ValidationError(f"Plots can't group by {by!r}.{did_you_mean(by, GROUPS)} There is: {', '.join(GROUPS)}.")
    if find_spec("altair") is None:
        raise MissingPackageError("Plots need altair", extra="plots")
