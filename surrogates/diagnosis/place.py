"""Where in a program a tensor operation was called: the line outside torch and this library, and the module."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FrameType

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from surrogates.core import Strategy

UNDER = " under "
LIBRARY = f"{Path(__file__).parents[1]}{os.sep}"
SKIPPED = (f"{Path(torch.__file__).parent}{os.sep}", LIBRARY, "<frozen ", "<string>")  # not torchvision


@dataclass(frozen=True)
class Place:
    """A line of a file, its function, and the innermost module of the model that ran there.

    `file` is None if only torch and this library lie between the model's call and the operation, as in an
    `nn.Sequential` of torch's modules. `module` is None outside the model's modules, as in the loss.
    """

    file: str | None = None
    line: int = 0
    function: str = ""
    module: str | None = None
    inside: str | None = None  # what the line calls of this library, if the operation runs inside it
    layer: nn.Module | None = field(default=None, repr=False, compare=False)

    @property
    def code(self) -> str:
        """The line's text; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def short(self) -> str:
        """The file's name and the line; the module if no line is known."""
        return f"{Path(self.file).name}:{self.line}" if self.file else self.owner

    @property
    def owner(self) -> str:
        """The module in words."""
        if self.layer is None:
            return "outside the model's modules"
        kind = type(self.layer).__name__
        return f"in module '{self.module}' ({kind})" if self.module else f"in the model ({kind})"


def place(names: dict[nn.Module, str], boundary: CodeType) -> Place:
    """The place of the operation that the caller's caller calls; the search ends at the frame of `boundary`."""
    frame: FrameType | None = sys._getframe(2)
    line: FrameType | None = None
    layer: nn.Module | None = None
    inside: str | None = None
    while frame is not None and frame.f_code is not boundary and (line is None or layer is None):
        if line is None and not frame.f_code.co_filename.startswith(SKIPPED):
            line = frame
        if line is None and frame.f_code.co_filename.startswith(LIBRARY):
            inside = library_call(frame, inside)
        layer = _module(frame, names) if layer is None else layer
        frame = frame.f_back
    name = None if layer is None else names[layer]
    if line is None:
        return Place(module=name, inside=inside, layer=layer)
    return Place(line.f_code.co_filename, line.f_lineno, line.f_code.co_name, name, inside, layer)


def place_of(error: BaseException, names: dict[nn.Module, str]) -> Place:
    """The last line of the error's traceback outside torch and this library, and the innermost module."""
    found, layer = Place(), None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        owner = _module(trace.tb_frame, names)
        layer = layer if owner is None else owner  # an empty container counts as False
        if not code.co_filename.startswith(SKIPPED):
            found = Place(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return replace(found, module=None if layer is None else names[layer], layer=layer)


def library_call(frame: FrameType, inner: str | None) -> str | None:
    """What a frame of this library runs, in words; `inner` is what its callee runs.

    A pair of op and strategy names all that runs inside and outside it. A block of `through` names the torch call that
    it was given.
    """
    if inner and UNDER in inner:
        return inner
    code = frame.f_code
    arguments = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    owner = arguments[0] if arguments else None
    if isinstance(owner, Strategy) and code.co_name == "__call__":
        return f"{type(arguments[1]).__name__}{UNDER}{type(owner).__name__}"
    if isinstance(owner, TorchFunctionMode):
        return None if inner is None else str(getattr(arguments[1], "__name__", inner))
    if isinstance(owner, nn.Module):
        return type(owner).__name__
    return code.co_name


def _module(frame: FrameType, names: dict[nn.Module, str]) -> nn.Module | None:
    """The module of the model whose method the frame runs; else None."""
    if not frame.f_code.co_argcount:
        return None
    owner = frame.f_locals.get(frame.f_code.co_varnames[0])
    return owner if isinstance(owner, nn.Module) and owner in names else None
