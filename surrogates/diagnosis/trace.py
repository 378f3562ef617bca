"""Records the operations of a forward pass: their inputs and results, and the graph that autograd made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from surrogates.diagnosis.numbers import is_finite, is_zero
from surrogates.diagnosis.place import Place, place
from surrogates.torch_private import innermost

ACCUMULATED: Any = Tensor.grad.__get__  # type: ignore[union-attr]  # not computed in this pass
# Conversions that pass a tensor's numbers to Python, without their graph.
LEAVING = frozenset(("item", "tolist", "numpy", "equal", "allclose", "is_nonzero")) | frozenset(
    ("__float__", "__int__", "__bool__", "__index__", "__complex__", "__array__")
)


@dataclass(eq=False)
class Value:
    """A tensor between two changes in place. A reference to the tensor keeps its id from being used again."""

    tensor: Tensor
    call: Operation | None = None  # the call that returned it; None for parameters, data and constants
    node: Node | None = None
    parameter: str | None = None
    zero: bool = False  # everywhere
    finite: bool = True


@dataclass(eq=False)
class Operation:
    """One operation."""

    name: str
    place: Place
    inputs: list[Value]
    recording: bool  # the gradient mode
    outputs: list[Value] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What the user's line calls: this library's function, layer or pair, or the torch operation."""
        return self.place.inside or self.name

    @property
    def leaves(self) -> bool:
        """Whether it passes numbers to Python."""
        return self.name in LEAVING


class Trace(TorchFunctionMode):
    """Records the calls of torch functions, Tensor methods and operators while active; changes no call."""

    def __init__(self, model: nn.Module, boundary: CodeType) -> None:
        super().__init__()
        self.names = {module: name for name, module in model.named_modules()}
        self.boundary = boundary
        self.calls: list[Operation] = []
        self.running: Operation | None = None  # the current call; after an exception, the call that raised it
        self.owners: dict[Node, Operation] = {}
        self.values: dict[int, Value] = {}
        self.memory: dict[int, Value] = {}
        for name, parameter in model.named_parameters():
            self._keep(Value(parameter, parameter=name, zero=is_zero(parameter), finite=is_finite(parameter)))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs the function unchanged and records it."""
        kwargs = kwargs or {}
        given = list(tensors((args, kwargs)))
        if not given or func == ACCUMULATED:
            return func(*args, **kwargs)
        call = Operation(_name(func), place(self.names, self.boundary), [], torch.is_grad_enabled())
        call.inputs = [self.value(tensor, call.place) for tensor in given]
        self.running = call
        versions = [_version(tensor) for tensor in given]
        result = func(*args, **kwargs)
        self.running = None
        changed = [t for t, before in zip(given, versions, strict=True) if _version(t) != before]
        bases = [t._base for t in changed if t._base is not None]
        returned = [] if _ignores_values(call.name) else [*tensors(result), *changed, *bases]
        if returned or call.leaves:
            self._record(call, returned)
        return result

    def value(self, tensor: Tensor, at: Place) -> Value:
        """The record of a tensor; the tensor or its graph may have arisen where this mode does not see it."""
        known = self.values.get(id(tensor))
        if known is None:
            source = None if tensor.grad_fn is not None else self.memory.get(_address(tensor))
            known = self._keep(Value(tensor, zero=is_zero(tensor), finite=is_finite(tensor)))
            if source is not None:  # wrapped as a Parameter, or back from numpy
                call = Operation(type(tensor).__name__, at, [source], recording=True)
                self._record(call, [tensor])
                known = self.values[id(tensor)]
        if tensor.grad_fn is not None and tensor.grad_fn is not known.node:  # a custom Function's output, or a view
            known.node = tensor.grad_fn
            self._own(known.node, known.call or Operation(known.node.name(), at, [], recording=True))
        return known

    def owner(self, node: Node) -> Operation:
        """The call that made a node of the graph; only the name is known of a node that this mode did not see."""
        return self.owners.get(node) or Operation(node.name(), Place(), [], recording=True)

    def _record(self, call: Operation, returned: list[Tensor]) -> None:
        self.calls.append(call)
        for tensor in {id(t): t for t in returned}.values():
            value = Value(tensor, call, tensor.grad_fn, zero=is_zero(tensor), finite=is_finite(tensor))
            call.outputs.append(self._keep(value))
            if value.node is not None:
                self._own(value.node, call)

    def _keep(self, value: Value) -> Value:
        self.values[id(value.tensor)] = value
        address = _address(value.tensor)
        if address:
            self.memory[address] = value
        return value

    def _own(self, node: Node, call: Operation) -> None:
        """Assigns to the call the graph from a node back to known nodes."""
        pending = [node]
        while pending:
            node = pending.pop()
            if node in self.owners or hasattr(node, "variable"):
                continue
            self.owners[node] = call
            pending.extend(following for following, _ in node.next_functions if following is not None)


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dictionaries; torch.func's wrappers are removed."""
    if isinstance(value, Tensor):
        yield innermost(value)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def _name(func: Callable[..., Any]) -> str:
    """`round` for torch.round, Tensor.round and Tensor.round_; `data` for the attribute."""
    name = str(getattr(func, "__name__", func))
    if name in ("__get__", "__set__"):  # a property's
        name = str(getattr(getattr(func, "__self__", None), "__name__", name))
    return name if name.endswith("__") else name.partition(".")[0].rstrip("_")


def _ignores_values(name: str) -> bool:
    """Whether a function's result depends only on a tensor's shape and type."""
    return name.endswith("_like") or (name.startswith("new_") and name != "new_tensor")


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided and tensor.device.type != "meta" else 0
