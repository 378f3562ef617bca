"""Finds out why a gradient is None, zero or NaN."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from surrogates.diagnosis.backward import Backward, differentiate, masks, reachable
from surrogates.diagnosis.cancellations import cancellations
from surrogates.diagnosis.causes import Cause, Lineage, cuts, departures, explosions, names_of, stops, union
from surrogates.diagnosis.checks import check_arguments, check_loss
from surrogates.diagnosis.failures import failed_backward, failed_forward
from surrogates.diagnosis.keep_state import keep_state
from surrogates.diagnosis.numbers import state
from surrogates.diagnosis.place import Place
from surrogates.diagnosis.reasons import merge, to_finding, unrelated_loss
from surrogates.diagnosis.report import Diagnosis
from surrogates.diagnosis.trace import Trace, Value
from surrogates.diagnosis.trials import try_remedies


def diagnose(model: nn.Module, loss_fn: Callable[..., Any], batch: Any) -> Diagnosis:
    """Finds the parameters whose gradient is None, exactly zero, NaN or infinite; reports at which line, and why.

    `batch` is a pair (inputs, target), with the loss `loss_fn(model(inputs), target)`; for any other batch the loss is
    `loss_fn(model(batch))`. Inputs in a tuple or list are the model's arguments, inputs in a dictionary its keyword
    arguments.
    One forward and one backward pass run, in the model's own mode, and a pair of passes for each remedy that is tried.
    A remedy is printed as tried if parameters got a gradient with it. Parameters, their `.grad`, buffers, attributes
    and the random generators are restored after each pair. An exception in a pass is part of the report.

    The report covers calls of torch functions, Tensor methods and operators, and custom autograd Functions. Everything
    inside TorchScript is one step without a line.
    Raises TypeError if the model is no module, loss_fn cannot be called, or it returns neither a tensor nor a number.
    Raises ValueError if no parameter is trained, or one has no shape yet (lazy modules).
    Raises ValueError if the model has reentrant checkpoints, whose gradients exist in backward() only.
    """
    check_arguments(model, loss_fn)

    def run(block: contextlib.AbstractContextManager[object]) -> Diagnosis:
        return _run(model, loss_fn, batch, block)

    return try_remedies(run(contextlib.nullcontext()), model, run)


def _run(
    model: nn.Module, loss_fn: Callable[..., Any], batch: Any, block: contextlib.AbstractContextManager[object]
) -> Diagnosis:
    """The diagnosis of the passes inside a block, with remedies that were not tried."""
    trace = Trace(model, _forward.__code__)
    with keep_state(model), torch.inference_mode(False), torch.enable_grad(), _eager():
        try:
            with block, trace:
                loss = _forward(model, loss_fn, batch)
        except Exception as error:
            return failed_forward(model, trace, error)
        check_loss(loss)
        return _examine(model, trace, loss)


def _forward(model: nn.Module, loss_fn: Callable[..., Any], batch: Any) -> Any:
    """The loss. The search for a line of the user's code ends at this frame."""
    pair = isinstance(batch, (tuple, list)) and len(batch) == 2
    inputs, rest = (batch[0], batch[1:]) if pair else (batch, ())
    if isinstance(inputs, dict):
        return loss_fn(model(**inputs), *rest)
    if isinstance(inputs, (tuple, list)):
        return loss_fn(model(*inputs), *rest)
    return loss_fn(model(inputs), *rest)


def _examine(model: nn.Module, trace: Trace, loss: Any) -> Diagnosis:
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    lineage = Lineage(trace, list(trained.values()))
    value = trace.value(loss, Place()) if isinstance(loss, Tensor) else None
    number = loss.item() if isinstance(loss, Tensor) and loss.numel() == 1 and not loss.is_complex() else None
    backward, graph = Backward([None] * len(trained)), dict[Node, int]()
    if value is not None and value.tensor.requires_grad:
        backward, graph = differentiate(loss, lineage.parameters), masks(reachable(loss.grad_fn), lineage.parameters)
    if backward.error is not None:
        return failed_backward(model, trace, backward, loss)
    states = {name: state(g) for name, g in zip(trained, backward.gradients, strict=True)}
    causes = _causes(lineage, value, backward, graph, states)
    findings = [to_finding(cause, names_of(cause.parameters, trained)) for cause in causes]
    if not _excuse(states, lineage, value, causes):
        findings.append(unrelated_loss(tuple(trained)))
    frozen = {name: "frozen" for name, _ in model.named_parameters()}
    return Diagnosis(_outcome(states), frozen | states, merge(findings), number)


def _causes(
    lineage: Lineage, loss: Value | None, backward: Backward, graph: dict[Node, int], states: dict[str, str]
) -> list[Cause]:
    none, zero, broken = (_bits(states, *kinds) for kinds in (("none",), ("zero",), ("nan", "inf")))
    reached = 0 if loss is None else lineage.by_numbers(loss)
    return [
        *explosions(lineage, backward, graph, broken),
        *cuts(lineage, loss, none),
        *departures(lineage, none & ~reached),
        *stops(lineage, backward, graph, "none", none),
        *stops(lineage, backward, graph, "zero", zero),
        *cancellations(lineage, backward, graph, zero),
    ]


def _excuse(states: dict[str, str], lineage: Lineage, loss: Value | None, causes: list[Cause]) -> bool:
    """Marks as unused the parameters from which nothing was computed, if others are used; returns whether any is."""
    used = (0 if loss is None else lineage.by_numbers(loss)) | union(cause.parameters for cause in causes)
    for index, (name, held) in enumerate(states.items()):
        if held == "none" and used and not used >> index & 1:
            states[name] = "unused"
    return bool(used)


def _outcome(states: dict[str, str]) -> str:
    outcomes = {"no graph": ("none",), "not finite": ("nan", "inf"), "zero gradient": ("zero",)}
    return next((word for word, kinds in outcomes.items() if _bits(states, *kinds)), "healthy")


def _bits(states: dict[str, str], *kinds: str) -> int:
    return sum(1 << index for index, held in enumerate(states.values()) if held in kinds)


def _eager() -> Any:
    """Runs compiled parts uncompiled; does not import the compiler if the process has not."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()
