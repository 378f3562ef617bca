"""`through`: puts the hard torch calls of any model or function under a strategy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from surrogates.core import Strategy
from surrogates.own_model.choice import StrategyByOp
from surrogates.own_model.detached import SUMS
from surrogates.own_model.dispatch import KNOWN, dispatch
from surrogates.own_model.entered import entered
from surrogates.own_model.replacements import Replacements
from surrogates.own_model.replacer import Replacer
from surrogates.own_model.tracking import graphs
from surrogates.schedules import require_temperature


def through(
    strategy: Strategy | str | None,
    /,
    *,
    T: float | Tensor | None = None,
    seed: int = 0,
    step: int = 0,
    empty: str = "leave",
    **by_op: Strategy | str | None,
) -> Through:
    """A block that replaces the hard torch calls of any model or function by ops under a strategy.

    `with through(StraightThrough(), max=Smooth()) as report: loss = model(x)`: `strategy` is for every op except those
    named, by the name of the op's file. An op whose strategy is None is not replaced. Straight-through is for the ops
    whose derivative is 0 almost everywhere; clips, relu, maxima and sorted values keep their derivative (`Subgradient`)
    unless they are named. Under hard-valued strategies no bit of the forward pass changes. A call is unchanged if none
    of its inputs requires a gradient, so a `no_grad` block runs the hard model. Results of bools or integers are
    replaced where they are used. Draws by `bernoulli` and `multinomial` have the derivative of their expectation, under
    straight-through only. `print(report)` lists the hard calls that were replaced and those that were not.

    A sum with detached parts whose value is that of a replaced call, such as x + (round(x) - x).detach(), is computed
    with nothing detached, so it has the derivative of its value. Elsewhere a call whose derivative is thrown away by
    `detach`, `data` or `no_grad` counts as not replaced until a backward pass reaches it. The report is complete when
    the block ends.

    `T` is the temperature of all strategies that use one, by default each strategy's own. Noise is keyed by (seed,
    step, number of the noisy call). A pair that is not applicable raises EmptyCell (`empty="raise"`), or is not
    replaced (`empty="leave"`); clips, relu, maxima and sorted values then get `Subgradient`.
    The block acts in the thread that enters it. Of nested blocks only the innermost replaces calls. Layers of this
    library keep their own strategies.
    Raises RuntimeError if torch.compile traces the block.
    """
    if torch.compiler.is_compiling():
        raise RuntimeError("through cannot be compiled; enter the block around the compiled function")
    if T is not None and not isinstance(T, Tensor):
        require_temperature("T", T)
    return Through(Replacer(StrategyByOp(strategy, by_op, empty), T, seed, step))


class Through(TorchFunctionMode):
    """The block of `through`; entering it returns its report, which continues to count if it is entered again."""

    def __init__(self, replacer: Replacer) -> None:
        super().__init__()
        self.replacer = replacer

    def __enter__(self) -> Replacements:
        super().__enter__()  # type: ignore[no-untyped-call]
        entered.replacers.append(self.replacer)
        entered.marked.append(self.replacer.marks.entries)
        return self.replacer.report

    def __exit__(self, *error: Any) -> None:
        entered.replacers.pop()
        entered.marked.pop()
        self.replacer.detached.keep([])
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.compiler.is_compiling():
            raise RuntimeError("through cannot be compiled; call the uncompiled model, or use surrogates.convert")
        kwargs = kwargs or {}
        known = (
            function in KNOWN
            or (function in SUMS and self.replacer.detached.twins)
            or any(entered.marked)
            or (not torch.is_grad_enabled() and graphs(args))
        )
        if known and entered.replacers[-1] is self.replacer and not any(map(_overrides_torch, types)):
            handle = _outside_compiler() if "torch._dynamo" in sys.modules else dispatch
            return handle(self.replacer, function, args, kwargs)
        return function(*args, **kwargs)


@cache
def _outside_compiler() -> Callable[..., Any]:
    """`dispatch`, excluded from compilation; called only if the compiler, which is slow to import, is imported."""
    handle: Callable[..., Any] = torch.compiler.disable(dispatch)  # type: ignore[no-untyped-call]
    return handle


def _overrides_torch(kind: Any) -> bool:
    """Whether a tensor class overrides torch's functions."""
    return kind is not Tensor and kind.__torch_function__ is not nn.Parameter.__torch_function__
