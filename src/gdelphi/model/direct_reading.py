"""The direct reading: what stack, cell network and context network say together at an origin."""

from datetime import date, timedelta

import numpy as np
import torch

from gdelphi.common.errors import ForecastError
from gdelphi.common.types import TARGETS, FloatArray, History
from gdelphi.model.cell_fit import CellFit, blended
from gdelphi.model.cell_inputs import by_horizon, cell_inputs
from gdelphi.model.context_fit import ContextFit, ContextReading
from gdelphi.stack.fitted import PooledStack, StackAnswers
from gdelphi.stack.week import WeekStack


class DirectReading:
    """What is said at an origin: the stack's answers, moved as far to the networks' as was decided,
    of tomorrow and of the week. The context network speaks of tomorrow only."""

    def __init__(
        self,
        stack: PooledStack,
        fit: CellFit | None,
        history: History,
        week: WeekStack | None,
        context: ContextFit | None = None,
    ) -> None:
        self.stack, self.history, self.week_stack = stack, history, week
        moves = fit is not None and any(fit.weights) and (week is not None or not fit.knows_week)
        self.fit = fit if moves else None
        counts = stack.counts
        self.context = (
            ContextReading(context, counts.panel, counts.fit.out_of_fold.days)
            if context is not None and context.moves
            else None
        )

    def tomorrow(self, origin: date) -> FloatArray:
        """Logits, [target, stream, root]."""
        if self.fit is None:
            said = self.stack.answers(self.history, origin).stack
        else:
            said = np.moveaxis(self._outputs(self.fit, origin)[..., : len(TARGETS)], -1, 0)
        return self._with_context(said, origin)

    def week(self, origin: date) -> FloatArray:
        """The same of all horizons, [target, horizon, stream, root]."""
        if self.week_stack is None:
            raise ForecastError("the model speaks of tomorrow only")
        if self.fit is None or not self.fit.knows_week:
            said = self.week_stack.answer(self.history, origin).logits
        else:
            said = by_horizon(self._outputs(self.fit, origin))
        if self.context is None:
            return said
        said = said.copy()
        said[:, 0] = self._with_context(said[:, 0], origin)
        return said

    def _with_context(self, said: FloatArray, origin: date) -> FloatArray:
        """[target, stream, root]"""
        if self.context is None:
            return said
        return np.moveaxis(self.context.moved(np.moveaxis(said, 0, -1), origin), -1, 0)

    def _outputs(self, fit: CellFit, origin: date) -> FloatArray:
        """[stream, root, output]"""
        day = origin + timedelta(days=1)
        known = fit.at(day)
        if known is not None:
            return known
        answers = self.stack.answers(self.history, origin)
        of_one_day = StackAnswers(*(logits[:, None] for logits in answers))
        week = None
        if fit.knows_week and self.week_stack is not None:
            week = self.week_stack.answer(self.history, origin).logits[:, None]
        before = fit.network.config.days
        inputs = cell_inputs(self.stack.counts, [day], of_one_day, week, before=before)
        if self.stack.counts.fit.out_of_fold.place(day) is not None:
            stack: FloatArray = inputs.stack[0]
            return stack  # a training day, which both networks have seen
        shown = (torch.from_numpy(values[0]) for values in (inputs.columns, inputs.surprises))
        with torch.no_grad():
            added = fit.network(*shown).mean(dim=0).double().numpy()
        return blended(inputs.stack[0], inputs.base[0] + added, fit.weights)
