"""Perturbed ops: the derivative of a mean over noise, computed from the op's hard values alone."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from surrogates.core import EmptyCell, Op, graft
from surrogates.kernels import KERNELS, KernelName
from surrogates.noise import gumbel_log_density
from surrogates.sampling.perturbation import add_noise, check_one_input, standard_noise
from surrogates.strategies.samples import Averaged
from surrogates.strategies.tempered import require_mean, smooth_knobs


@dataclass(frozen=True)
class Perturbed(Averaged):
    """y = mean_k hard(x + T e_k), k = 1 .. `samples`, with the derivative of mean_k (hard(x + T e_k) - hard(x)) w_k.

    w_k = q((z_k - x) / T) / q(e_k), with z_k = x + T e_k held constant and q the density of e. w_k is 1 and has the
    derivative of its score, -q'/q / T. The derivatives, of every order, are unbiased estimates of those of E[hard(x + T
    e)]. The only reading used is `hard`; hard(x) is a control variate.
    e has the law of `kernel` for elementwise ops, centred Gumbel for ops over a dim (Berthet et al. 2020, arXiv
    2002.08676).
    Kernels of compact support do not apply: the uniform law's score is 0, and the triangular law's has infinite
    variance.
    """

    kernel: KernelName | None = "logistic"

    def combine(self, op: Op, *x: Tensor, T: Any, noise: Tensor | None) -> Tensor:
        assert noise is not None
        e = standard_noise(op, noise, self.kernel)
        moved = add_noise(op, x[0].detach(), e, T)
        values = op.hard(moved) if op.elementwise else torch.func.vmap(op.hard)(moved)
        excess = values - op.hard(x[0].detach().to(noise.dtype))
        excess = torch.where(excess.isfinite(), excess, 0)
        carrier = (excess * self._weight(op, x[0], e, T, excess.dim())).mean(0)
        return graft(values.mean(0).to(x[0].dtype), carrier)

    def _weight(self, op: Op, x: Tensor, e: Tensor, T: Any, dims: int) -> Tensor:
        """The density of the noise that leads to the same point, divided by itself: 1, with the score's derivative."""
        held = x.detach()
        back = torch.where(held.isfinite(), held - x, 0).to(e.dtype) / (T * op.temperature_unit)
        log = self._log_density(op, e + back)
        if not op.elementwise:  # the noise of a row acts on all of its output, which has `dims` dims, samples first
            dim = op.dim + (op.dim >= 0)  # type: ignore[attr-defined]
            log = log.sum(dim)
            while log.dim() < dims:
                log = log.unsqueeze(dim)
        return torch.exp(log - log.detach())

    def _log_density(self, op: Op, e: Tensor) -> Tensor:
        if op.takes_kernel():
            assert self.kernel is not None
            return torch.log(KERNELS[self.kernel].density(e))
        return gumbel_log_density(-e if op.subtracts_noise else e)

    def check(self, op: Op) -> None:
        check_one_input(op, "perturbed")
        if not op.takes_kernel():
            return
        if self.kernel not in KERNELS:
            raise EmptyCell(f"perturbed needs a kernel for {type(op).__name__}, one of: {', '.join(KERNELS)}")
        if KERNELS[self.kernel].boxes:
            usable = ", ".join(name for name, kernel in KERNELS.items() if not kernel.boxes)
            raise EmptyCell(f"kernel '{self.kernel}' has no usable score, as its support is bounded; use {usable}")
        require_mean(op, self.kernel)

    def uses(self, op: Op) -> frozenset[str]:
        return smooth_knobs(op)

    def noise_shape(self, op: Op, *x: Tensor) -> tuple[int, ...]:
        return (self.samples, *x[0].shape)
