"""Laws of the kernels: one noise law, seen as density, cdf, ramp, sampler and characteristic function."""

import math

import pytest
import torch

from products import generator
from surrogates.kernels import KERNELS, Kernel

torch.set_num_threads(1)
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
SMOOTH_TAILS = {name: kernel for name, kernel in KERNELS.items() if not kernel.boxes and kernel.has_mean}


def quadrature(count: int = 400_001) -> tuple[torch.Tensor, torch.Tensor]:
    """Points and weights of the whole line: u = t / (1 - t^2), middles of equal cells of t."""
    t = (torch.arange(count, dtype=torch.float64) + 0.5) / count * 2 - 1
    return t / (1 - t**2), (1 + t**2) / (1 - t**2) ** 2 * (2 / count)


def derivative(function, u: torch.Tensor) -> torch.Tensor:
    u = u.clone().requires_grad_()
    y = function(u)
    if not y.requires_grad:  # a constant, as the uniform density
        return torch.zeros_like(u)
    (gradient,) = torch.autograd.grad(y.sum(), u)
    return gradient


def grid(kernel: Kernel) -> torch.Tensor:
    """Points on both sides of the kinks 0, -1 and 1 and none on them."""
    return torch.cat([torch.linspace(-3.013, 3.022, 400), torch.tensor([-40.5, -9.3, 9.3, 40.5])]).double()


def test_there_are_six_kernels() -> None:
    assert set(KERNELS) >= {"logistic", "normal", "uniform", "triangular", "cauchy", "fast_sigmoid"}
    assert {name for name, kernel in KERNELS.items() if not kernel.has_mean} == {"cauchy", "fast_sigmoid"}
    assert len(SMOOTH_TAILS) >= 2


@pytest.mark.slow
@every_kernel
def test_the_density_has_area_one_and_is_symmetric(kernel: Kernel) -> None:
    u, weight = quadrature()
    assert (kernel.density(u) * weight).sum().item() == pytest.approx(1, abs=1e-5)
    assert (kernel.density(u) >= 0).all()
    torch.testing.assert_close(kernel.density(u), kernel.density(-u))
    torch.testing.assert_close(kernel.cdf(u) + kernel.cdf(-u), torch.ones_like(u))


@every_kernel
def test_the_density_is_the_derivative_of_the_cdf_and_the_cdf_that_of_the_ramp(kernel: Kernel) -> None:
    u = grid(kernel)
    h = 1e-5
    torch.testing.assert_close(derivative(kernel.cdf, u), kernel.density(u), atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(derivative(kernel.ramp, u), kernel.cdf(u), atol=1e-12, rtol=1e-9)
    for function, slope in ((kernel.cdf, kernel.density), (kernel.ramp, kernel.cdf)):
        difference = (function(u + h) - function(u - h)) / (2 * h)
        torch.testing.assert_close(difference, slope(u), atol=1e-8, rtol=0)


@every_kernel
def test_the_derivative_of_the_density_is_right_away_from_its_kinks(kernel: Kernel) -> None:
    u, h = grid(kernel), 1e-5
    expected = (kernel.density(u + h) - kernel.density(u - h)) / (2 * h)
    torch.testing.assert_close(derivative(kernel.density, u), expected, atol=1e-7, rtol=0)
    twice = torch.func.vmap(torch.func.grad(torch.func.grad(kernel.cdf)))(u)
    torch.testing.assert_close(twice, expected, atol=1e-7, rtol=0)


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_the_slopes_at_exactly_zero(kernel: Kernel, dtype: torch.dtype) -> None:
    zero = torch.tensor([0.0, -0.0], dtype=dtype)
    peak = (kernel.cdf(zero.double() + 1e-7) - kernel.cdf(zero.double() - 1e-7)) / 2e-7
    torch.testing.assert_close(kernel.cdf(zero), torch.full_like(zero, 0.5))
    torch.testing.assert_close(derivative(kernel.cdf, zero), kernel.density(zero))
    torch.testing.assert_close(kernel.density(zero).double(), peak, atol=1e-6, rtol=0)
    torch.testing.assert_close(derivative(kernel.ramp, zero), torch.full_like(zero, 0.5))


@every_kernel
def test_the_ramp_is_the_expected_relu_where_there_is_a_mean(kernel: Kernel) -> None:
    if not kernel.has_mean:
        u = torch.tensor([-1e6, 1e6], dtype=torch.float64)
        assert ((kernel.ramp(u) - torch.relu(u)) < -1).all()  # no expectation: an antiderivative only
        return
    e, weight = quadrature()
    for u in (-2.3, -0.4, 0.0, 0.7, 3.1):
        expected = (torch.relu(u + e) * kernel.density(e) * weight).sum().item()
        assert kernel.ramp(torch.tensor(u, dtype=torch.float64)).item() == pytest.approx(expected, abs=1e-4)


@every_kernel
def test_the_quantile_inverts_the_cdf(kernel: Kernel) -> None:
    p = torch.cat([torch.linspace(1e-4, 1 - 1e-4, 999), torch.tensor([2.0**-25, 0.5, 1 - 2.0**-24])]).double()
    torch.testing.assert_close(kernel.cdf(kernel.quantile(p)), p, atol=1e-10, rtol=0)
    assert (kernel.quantile(p.unique()).diff() > 0).all()
    assert kernel.quantile(torch.tensor([0.5])).abs().item() < 1e-6
    smallest = torch.tensor([2.0**-25, 2.0**-24, 1 - 2.0**-24])
    assert kernel.quantile(smallest).isfinite().all()
    torch.testing.assert_close(kernel.cdf(kernel.quantile(smallest)), smallest, atol=2e-7, rtol=0)


@every_kernel
def test_the_stated_interquartile_range(kernel: Kernel) -> None:
    quartiles = kernel.quantile(torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert (quartiles[1] - quartiles[0]).item() == pytest.approx(kernel.interquartile_range, rel=1e-12)
    half = torch.tensor(kernel.interquartile_range / 2, dtype=torch.float64)
    assert kernel.cdf(half).item() == pytest.approx(0.75, abs=1e-12)


@every_kernel
def test_the_stated_peak_is_the_density_at_0(kernel: Kernel) -> None:
    assert kernel.density(torch.zeros((), dtype=torch.float64)).item() == pytest.approx(kernel.peak, rel=1e-15)


@every_kernel
def test_samples_follow_the_cdf(kernel: Kernel) -> None:
    """Kolmogorov-Smirnov with 100,000 draws: below 1.95 / sqrt(n), which a right sampler exceeds once in 1,000."""
    n = 100_000
    p = torch.rand(n, generator=generator(5)).clamp(min=2.0**-25)
    e = kernel.quantile(p).double().sort().values
    empirical = torch.arange(1, n + 1, dtype=torch.float64) / n
    distance = torch.maximum((kernel.cdf(e) - empirical).abs(), (kernel.cdf(e) - empirical + 1 / n).abs()).max()
    assert distance < 1.95 / math.sqrt(n)


@pytest.mark.parametrize("kernel", SMOOTH_TAILS.values(), ids=list(SMOOTH_TAILS))
def test_the_characteristic_function_is_the_fourier_integral_of_the_density(kernel: Kernel) -> None:
    e = torch.linspace(-60, 60, 400_001, dtype=torch.float64)
    for w in (0.0, 0.3, 1.0, 2.5, 2 * math.pi, 10.0):
        integral = (torch.cos(w * e) * kernel.density(e)).sum() * (e[1] - e[0])
        got = kernel.characteristic(torch.tensor([w, -w], dtype=torch.float64))
        torch.testing.assert_close(got, integral.expand(2), atol=1e-9, rtol=0)


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_values_and_slopes_are_finite_at_the_extremes(kernel: Kernel, dtype: torch.dtype) -> None:
    u = torch.tensor([0.0, 1.0, 50.0, 1e4, 1e19, 1e30], dtype=dtype)
    u = torch.cat([u, -u])
    for function in (kernel.cdf, kernel.density, kernel.ramp):
        assert function(u).isfinite().all()
        assert derivative(function, u).isfinite().all()
    far = u.abs() >= 1e4
    sign = (u > 0).to(dtype)
    torch.testing.assert_close(kernel.cdf(u)[far], sign[far], atol=1e-4, rtol=0)
    torch.testing.assert_close(derivative(kernel.ramp, u)[far], sign[far], atol=1e-4, rtol=0)
    torch.testing.assert_close(kernel.ramp(u)[u.abs() >= 1e19], torch.relu(u)[u.abs() >= 1e19], atol=40, rtol=1e-6)


@every_kernel
def test_infinities_and_nan(kernel: Kernel) -> None:
    u = torch.tensor([-math.inf, math.inf, math.nan])
    assert kernel.cdf(u)[:2].tolist() == [0.0, 1.0]
    assert kernel.density(u)[:2].tolist() == [0.0, 0.0]
    assert derivative(kernel.cdf, u)[:2].isfinite().all()
    for function in (kernel.cdf, kernel.density, kernel.ramp):
        assert function(u)[2].isnan()
    if kernel.has_mean:
        assert kernel.ramp(u)[:2].tolist() == [0.0, math.inf]


@every_kernel
def test_shapes_dtypes_and_monotonicity(kernel: Kernel) -> None:
    for dtype in (torch.float64, torch.float32):
        for shape in ((), (0,), (2, 0, 3), (4, 5)):
            u = torch.randn(shape, generator=generator(2)).to(dtype)
            for function in (kernel.cdf, kernel.density, kernel.ramp):
                assert function(u).shape == shape
                assert function(u).dtype == dtype
            assert kernel.quantile(torch.sigmoid(u)).shape == shape
    u = torch.linspace(-6, 6, 10_001, dtype=torch.float64)
    assert (kernel.cdf(u).diff() >= 0).all()
    assert (kernel.ramp(u).diff() >= 0).all()
