"""Writes the sentences for a cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torch.autograd.function import BackwardCFunction

from surrogates.diagnosis.causes import Cause
from surrogates.diagnosis.hints import all_chosen, one_entry
from surrogates.diagnosis.place import Place
from surrogates.diagnosis.remedies import Remedy, always_flat, remedies, remedy
from surrogates.diagnosis.report import Finding
from surrogates.diagnosis.trace import Operation, Value
from surrogates.hard_layer import HardLayer

WITHOUT_GRAPH = ("detach", "data")


def to_finding(cause: Cause, parameters: tuple[str, ...]) -> Finding:
    """The finding for a cause; its place is that of the call that made the numbers, if that is an earlier call."""
    if cause.kind == "cancelled":
        return _cancellation(cause, parameters)
    operation = _operation(cause)
    words = {"cut": _why_cut, "flattened": _why_flat, "not finite": _why_not_finite}[cause.kind](cause, operation)
    blamed = cause.source and (cause.source.call or cause.given_to)
    if blamed and blamed is not cause.call:
        return Finding(cause.kind, blamed.title, blamed.place, parameters, words, _offers(cause.kind, blamed, None))
    offers = _offers(cause.kind, cause.call, cause.output, operation)
    return Finding(cause.kind, operation, cause.call.place, parameters, words, offers)


def _cancellation(cause: Cause, parameters: tuple[str, ...]) -> Finding:
    """The finding for a tensor whose gradients cancel; the place is that of its last use."""
    is_parameter = hasattr(cause.node, "variable")
    tensor = f"the parameter {parameters[0]}" if is_parameter else f"the result of {cause.call.title}"
    uses = ", ".join(f"{use.title} ({use.place.short})" for use in cause.uses)
    words = f"the gradients by {tensor} from its uses sum to exactly 0: {uses}"
    if len(cause.uses) == 1:
        words += one_entry(cause.uses[0])
    return Finding(cause.kind, cause.uses[0].title, cause.uses[0].place, parameters, words)


def unrelated_loss(parameters: tuple[str, ...]) -> Finding:
    """The finding for a loss that depends on no parameter."""
    words = "the loss was not computed from any parameter of this model; it is a constant or belongs to another model"
    return Finding("cut", "the loss", Place(), parameters, words)


def merge(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merges the findings of an operation at a line into one, with all parameters and reasons."""
    found: dict[tuple[str, str, Place], Finding] = {}
    for new in findings:
        key = (new.kind, new.operation, new.place)
        if old := found.get(key):
            reason = old.reason if new.reason in old.reason else f"{old.reason}; {new.reason}"
            names = tuple(dict.fromkeys(old.parameters + new.parameters))
            new = replace(old, parameters=names, reason=reason)
        found[key] = new
    return tuple(found.values())


def _offers(kind: str, call: Operation, output: Value | None, operation: str | None = None) -> tuple[Remedy, ...]:
    if kind == "not finite":
        return ()
    if isinstance(call.place.layer, HardLayer):
        return (remedy(call.place.layer.op),)
    return remedies(operation or call.title, output is not None and not output.tensor.is_floating_point())


def exception_finding(
    error: Exception, call: Operation | None, place: Place, loss_shape: tuple[int, ...] | None = None
) -> Finding:
    """The finding for an exception."""
    words = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if loss_shape:
        words += f". The loss has the shape {loss_shape} and must be one number; use its .mean() or .sum()"
    offers: tuple[Remedy, ...] = remedies(call.title) if call and "not implemented" in str(error) else ()
    operation = call.title if call else "backward" if loss_shape else "outside torch"
    return Finding("exception", operation, place, (), words, offers)


def _operation(cause: Cause) -> str:
    layer = cause.call.place.layer
    if isinstance(layer, HardLayer):
        return f"{type(layer.op).__name__} under {type(layer.strategy).__name__}"
    if isinstance(cause.node, BackwardCFunction):
        return str(cause.node.name()).removesuffix("Backward")
    return cause.call.title


def _why_cut(cause: Cause, operation: str) -> str:
    if cause.node is not None:
        return f"the backward of {operation} returns None for an input that requires a gradient"
    if cause.call.leaves:
        return f"{operation} passes the numbers to Python; results computed from them there have no graph"
    if operation in WITHOUT_GRAPH:
        return (
            f"{operation} returns the value without its graph; surrogates.graft(value, carrier) gives a value the "
            "derivative of another tensor"
        )
    if cause.output is not None and not cause.output.tensor.is_floating_point():
        kind = str(cause.output.tensor.dtype).removeprefix("torch.")
        words = f"the result of {operation} used here is {kind}, which has no graph; the gradient is None, not zero"
        return words + all_chosen(cause)
    if cause.output is not None and cause.output.tensor.is_leaf and cause.output.tensor.requires_grad:
        return f"{operation} makes the numbers a new leaf; the graph ends there"
    if not cause.call.recording:
        return "the gradient mode is off here (torch.no_grad or inference_mode); move the call out of the block"
    return f"this result of {operation} has no graph in torch"


def _why_flat(cause: Cause, operation: str) -> str:
    layer = cause.call.place.layer
    if isinstance(layer, HardLayer) and layer.mode == "hard":
        return "the layer is in the mode 'hard', in which no strategy acts; call model.train() first"
    maker = cause.source and cause.source.call
    if cause.source is not None and not (maker and maker.title == operation):  # zeros from outside the call
        return f"{operation} multiplies the gradient by zeros: {_maker(cause.source)}"
    flat = always_flat(operation)
    if flat:
        return f"{operation} has a graph, but its derivative is zero almost everywhere, for every batch"
    if flat is not None:
        return f"the derivative of {operation} is zero on the whole batch: every input is saturated or off"
    words = f"{operation} gets a gradient that is not zero and passes on one that is zero everywhere"
    return words + one_entry(cause.call)


def _why_not_finite(cause: Cause, operation: str) -> str:
    if cause.source is not None:
        name = cause.given_to.title if cause.given_to else operation
        if cause.source.call is not None:
            return f"{cause.source.call.title} turns finite numbers into NaN or infinity; {name} is given the result"
        return f"{name} is given numbers that are not finite: {_maker(cause.source)}"
    if cause.zero_times_infinity:
        return (
            f"{operation} gets the gradient 0, and its derivative is not finite: 0 * inf is NaN. Replace the unsafe "
            f"numbers before and after {operation}: torch.where(safe, {operation}(torch.where(safe, x, 1)), 0)"
        )
    return f"{operation} gets a finite gradient, but its derivative is not finite"


def _maker(source: Value) -> str:
    if source.parameter is not None:
        return f"the parameter {source.parameter}"
    if source.call is None and source.node is not None:
        return "the result of a custom autograd Function"
    if source.call is None:
        return "an input, a buffer or a constant"
    return f"the result of {source.call.title}"
