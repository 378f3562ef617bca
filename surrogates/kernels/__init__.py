"""Kernels: symmetric noise laws of density area 1, one a file; each has a smooth step, its slope and a sampler."""

from surrogates.core import KernelName
from surrogates.kernels.cauchy import Cauchy
from surrogates.kernels.fast_sigmoid import FastSigmoid
from surrogates.kernels.kernel import Kernel
from surrogates.kernels.logistic import Logistic
from surrogates.kernels.normal import Normal
from surrogates.kernels.triangular import Triangular
from surrogates.kernels.uniform import Uniform

__all__ = [
    "KERNELS", "Cauchy", "FastSigmoid", "Kernel", "KernelName", "Logistic", "Normal", "Triangular", "Uniform",
]  # fmt: skip

KERNELS: dict[str, Kernel] = {
    "logistic": Logistic(),
    "normal": Normal(),
    "uniform": Uniform(),
    "triangular": Triangular(),
    "cauchy": Cauchy(),
    "fast_sigmoid": FastSigmoid(),
}
