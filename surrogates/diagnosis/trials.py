"""Tries each remedy on the model, so that a diagnosis advises only what gives parameters a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from surrogates.diagnosis.remedies import Remedy, Trial, stem
from surrogates.diagnosis.report import Diagnosis, Finding
from surrogates.hard_layer import HardLayer
from surrogates.own_model.through import Through, through

STRATEGIES_PER_OP = 3  # the first in their order
OPS_PER_BLOCK = 3  # ops in series: the second is at fault once the first has a derivative


def try_remedies(
    found: Diagnosis, model: nn.Module, run: Callable[[AbstractContextManager[object]], Diagnosis]
) -> Diagnosis:
    """The diagnosis with the first remedy of each finding that works; `run` diagnoses the model inside a block."""
    trials = _Trials(found, model, run)
    found = replace(found, findings=tuple(trials.examine(finding) for finding in found.findings))
    blocks = [f.tried.by_op for f in found.findings if f.tried and f.tried.by_op]
    joined = {op: name for by_op in blocks for op, name in by_op.items()}
    if all(by_op == joined for by_op in blocks):
        return found
    cured = trials.cured(run(_block(joined)), found.wanted)
    return replace(found, together=Trial(_written(joined), cured, joined)) if cured else found


@dataclass
class _Trials:
    before: Diagnosis
    model: nn.Module
    run: Callable[[AbstractContextManager[object]], Diagnosis]

    def examine(self, finding: Finding) -> Finding:
        """The finding with the remedy that works, or without those remedies that were tried in vain."""
        if not finding.remedies:
            return finding
        if isinstance(finding.place.layer, HardLayer):
            tried = self._try_layers(finding)
            return replace(finding, tried=tried, remedies=finding.remedies if tried else ())
        failed: list[Remedy] = []
        tried = self._try_blocks(finding, finding.parameters or self.before.wanted, {}, failed)
        rest = finding.remedies if tried else tuple(r for r in finding.remedies if r not in failed)
        return replace(finding, tried=tried, remedies=rest)

    def cured(self, after: Diagnosis, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the wanted parameters that have a gradient now; none if another parameter lost its own."""
        if any(after.parameters[name] != "finite" for name in self.before.named("finite")):
            return ()
        return tuple(name for name in wanted if after.parameters[name] == "finite")

    def _try_blocks(
        self, finding: Finding, wanted: tuple[str, ...], block: dict[str, str], failed: list[Remedy]
    ) -> Trial | None:
        """The block of `through` that cures most of the wanted parameters; the first of several."""
        best: Trial | None = None
        for remedy in finding.remedies:
            for strategy in remedy.strategies[:STRATEGIES_PER_OP]:
                by_op = block | {stem(remedy.op): stem(strategy)}
                entered = _block(by_op)
                after = self.run(entered)
                if not any(row.fate.startswith(f"{remedy.op.__name__}(") for row in entered.replacer.report.replaced):
                    break  # `through` does not replace this call
                cured = self.cured(after, wanted)
                if cured == wanted:
                    return Trial(_written(by_op), cured, by_op)
                if cured and (best is None or len(cured) > len(best.parameters)):
                    best = Trial(_written(by_op), cured, by_op)
                following = _next(after, wanted, by_op) if len(by_op) < OPS_PER_BLOCK else None
                if best is None and following:
                    best = self._try_blocks(following, wanted, by_op, [])
            else:
                failed.append(remedy)
        return best

    def _try_layers(self, finding: Finding) -> Trial | None:
        """Another strategy in the hard layer at fault."""
        old, name = finding.place.layer, finding.place.module
        if not isinstance(old, HardLayer) or not name:
            return None
        for strategy in finding.remedies[0].strategies[:STRATEGIES_PER_OP]:
            new = HardLayer(old.op, strategy())
            new.mode = old.mode
            with _swapped(self.model, name, new):
                cured = self.cured(self.run(nullcontext()), finding.parameters)
            if cured:
                return Trial(f"surrogates.HardLayer({new.extra_repr()}) as module '{name}'", cured)
        return None


def _next(after: Diagnosis, wanted: tuple[str, ...], by_op: dict[str, str]) -> Finding | None:
    """A finding on the way to the wanted parameters whose ops are all outside the block."""
    for finding in after.findings:
        ops = {stem(remedy.op) for remedy in finding.remedies}
        if ops and not ops & by_op.keys() and set(finding.parameters or wanted) & set(wanted):
            return finding
    return None


def _block(by_op: dict[str, Any]) -> Through:
    return through(None, **by_op)


def _written(by_op: dict[str, str]) -> str:
    chosen = ", ".join(f'{op}="{strategy}"' for op, strategy in by_op.items())
    return f"surrogates.through(None, {chosen})"


@contextmanager
def _swapped(model: nn.Module, name: str, layer: nn.Module) -> Iterator[None]:
    old = model.get_submodule(name)
    model.set_submodule(name, layer)
    try:
        yield
    finally:
        model.set_submodule(name, old)
