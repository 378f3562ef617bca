"""The diagnosis of a forward or backward pass that raised an error."""

from __future__ import annotations

from torch import Tensor, nn

from surrogates.diagnosis.backward import Backward
from surrogates.diagnosis.causes import Lineage, cuts, first_not_finite, names_of
from surrogates.diagnosis.place import Place, place_of
from surrogates.diagnosis.reasons import exception_finding, merge, to_finding
from surrogates.diagnosis.report import Diagnosis
from surrogates.diagnosis.trace import Trace


def failed_forward(model: nn.Module, trace: Trace, error: Exception) -> Diagnosis:
    """The line that raised; the calls that gave its inputs a type without a graph, or NaN to plain Python."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    lineage = Lineage(trace, list(trained.values()))
    given = [] if trace.running is None else [v for v in trace.running.inputs if not v.tensor.is_floating_point()]
    causes = [cause for value in given for cause in cuts(lineage, value, lineage.by_numbers(value))]
    if trace.running is None and (broken := first_not_finite(trace)):
        causes.append(broken)
    place = trace.running.place if trace.running else place_of(error, trace.names)
    found = exception_finding(error, trace.running, place)
    findings = [found, *(to_finding(cause, names_of(cause.parameters, trained)) for cause in causes)]
    return Diagnosis("exception", _unknown(model), merge(findings), error=error)


def failed_backward(model: nn.Module, trace: Trace, backward: Backward, loss: Tensor) -> Diagnosis:
    """The call whose derivative raised, and the shape of the loss."""
    assert backward.error is not None
    call = None if backward.failed is None else trace.owner(backward.failed)
    found = exception_finding(backward.error, call, call.place if call else Place(), tuple(loss.shape))
    return Diagnosis("exception", _unknown(model), (found,), error=backward.error)


def _unknown(model: nn.Module) -> dict[str, str]:
    return {name: "unknown" if p.requires_grad else "frozen" for name, p in model.named_parameters()}
