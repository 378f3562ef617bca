"""One hidden layer of any model: a linear or conv layer for each branch, and the component that joins them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from surrogates import Component


class Block(nn.Module):
    """branch layers, optional batch norm, component: (batch, in, ...) to (batch, width, ...).

    `layer(outputs)` makes a branch's layer, `norm(outputs)` its batch norm or None; `inputs` is the number of inputs of
    one pre-activation.
    Raises ValueError if a branch needs more pre-activations for one activation than there are inputs.
    Raises ValueError if the component does not fit the width or the layers.
    """

    def __init__(
        self,
        component: Component,
        width: int,
        inputs: int,
        layer: Callable[[int], nn.Module],
        norm: Callable[[int], nn.Module] | None,
    ) -> None:
        super().__init__()
        component.check_width(width)
        self.branches = tuple(component.branches)
        for branch, fan_in in component.branches.items():
            if fan_in > inputs:
                raise ValueError(
                    f"component.k={fan_in} is larger than the {inputs} inputs of a unit; choose a smaller k"
                )
            outputs = fan_in * width
            made = layer(outputs)
            component.prepare(made)
            self.add_module(branch, made)
            if norm is not None:
                self.add_module(f"{branch}_norm", norm(outputs))
        self.normalised = norm is not None
        self.component = component

    def forward(self, x: Tensor) -> Tensor:
        """Applies the component to the branches' pre-activations."""
        outputs = [getattr(self, branch)(x) for branch in self.branches]
        if self.normalised:
            outputs = [getattr(self, f"{b}_norm")(output) for b, output in zip(self.branches, outputs, strict=True)]
        activation: Tensor = self.component(*outputs)
        return activation
