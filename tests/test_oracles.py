"""The oracles against independent references, and what the scores say of estimators that are right and wrong."""

import itertools
import json
import math
from itertools import cycle, pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import surrogates.strategies
from experiments.measuring.alignment import cosine, scale
from experiments.oracles import (
    binary_network,
    categorical,
    deep_binary,
    line,
    selection,
    smoothed,
    teacher_student,
    toy,
)
from experiments.oracles.command import main
from experiments.oracles.contender_scores import all_settings
from experiments.oracles.contenders import Contender, contenders
from experiments.oracles.published import CATEGORICAL, DRAWS, SAMPLED, TAU, TRACES, agrees, is_repetition
from experiments.oracles.sampling import sample
from experiments.oracles.scores import score
from experiments.oracles.setting import gradient, normal
from surrogates import members
from surrogates.core import STRATEGIES
from surrogates.hard_layer import HardLayer
from surrogates.kernels import KERNELS, Logistic
from surrogates.naming.member import Words
from surrogates.noise import EULER
from surrogates.ops.argmax import ArgMax
from surrogates.ops.heaviside import Heaviside
from surrogates.sampling.score_function import score_function
from surrogates.strategies.gumbel import Gumbel
from surrogates.strategies.gumbel_rao import GumbelRao
from surrogates.strategies.reinmax import ReinMax
from surrogates.strategies.sampled import Sampled
from surrogates.strategies.zgr import ZGR

THETA = normal((5,), 3)
Q, B = normal((5, 5), 1), normal((5,), 2)


def quadratic(z: Tensor) -> Tensor:
    return categorical.quadratic(z, Q, B)


def tanh(z: Tensor) -> Tensor:
    return categorical.tanh(z, Q, B)


def differences(f, x: Tensor, h: float = 1e-5) -> Tensor:
    steps = h * torch.eye(len(x), dtype=x.dtype)
    return torch.stack([(f(x + step) - f(x - step)) / (2 * h) for step in steps])


def stairs_series(x: Tensor, kernel: str, T: float, first: float, terms: int = 60) -> Tensor:
    """The series for jumps at first + n, for kernels that declare their characteristic function."""
    n = torch.arange(1, terms + 1, dtype=x.dtype)
    waves = KERNELS[kernel].characteristic(2 * math.pi * n * T) * torch.cos(2 * math.pi * n * (x.unsqueeze(-1) - first))
    return 1 + 2 * waves.sum(-1)


def identity_mean(p, v: Tensor, w: Tensor) -> Tensor:
    """The expected gradient under the identity, in closed form."""
    mean: Tensor = (v @ v * w / w.norm() - v @ p.v_star * p.w_star) / math.sqrt(2 * math.pi)
    return mean


def relu_mean(p, v: Tensor, w: Tensor) -> Tensor:
    """The expected gradient under the ReLU's derivative, in closed form."""
    u, both, own = w / w.norm(), v @ p.v_star, v.sum()
    h = v @ v + own**2 - own * p.v_star.sum() + both
    middle = u + p.w_star
    towards = torch.cos(p.angle(w) / 2) * both / math.sqrt(2 * math.pi) * middle / middle.norm()
    mean: Tensor = h / (2 * math.sqrt(2 * math.pi)) * u - towards
    return mean


def inclusion(x: Tensor, k: int, T: float = 1.0) -> Tensor:
    """The probability that each entry is among the k largest."""
    choices = selection.ordered_choices(len(x), k)
    return selection.plackett_luce(x, choices, T) @ selection.masks(choices, len(x))


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def setting(name):
    (found,) = [s for s in all_settings() if s.name == name]
    return found


def test_categorical_formulas_and_where_reinmax_is_exact():
    p = THETA.softmax(-1)
    for f in (quadratic, tanh):
        truth = categorical.exact(f, THETA)
        torch.testing.assert_close(
            truth, differences(lambda x, f=f: categorical.expected(f, x), THETA), atol=1e-8, rtol=0
        )
        for strategy, mean in ((Sampled(), categorical.straight_through_mean), (ReinMax(), categorical.reinmax_mean)):
            rows = categorical.by_choice(strategy, f, THETA).squeeze(1)
            torch.testing.assert_close(p @ rows, mean(f, THETA), atol=1e-10, rtol=0)
        exact = torch.allclose(categorical.reinmax_mean(f, THETA), truth, atol=1e-10)
        assert exact == (f is quadratic)
    assert relative(categorical.straight_through_mean(quadratic, THETA), categorical.exact(quadratic, THETA)) > 0.01


def test_halving_the_loss_divides_the_bias_by_four_and_by_eight():
    def biases(mean):
        made = [lambda z, e=e: torch.exp(e * (z @ B)) for e in (0.2, 0.1, 0.05)]
        return [
            relative(mean(f, THETA), categorical.exact(f, THETA)) * categorical.exact(f, THETA).norm() for f in made
        ]

    st, reinmax = biases(categorical.straight_through_mean), biases(categorical.reinmax_mean)
    assert all(3.3 < a / b < 4.5 for a, b in pairwise(st))
    assert all(7 < a / b < 9 for a, b in pairwise(reinmax))


def test_the_score_function_has_the_mean_of_the_formula(monkeypatch):
    """By enumeration of all pairs of draws, each the other's baseline."""
    n, layer = len(THETA), HardLayer(ArgMax(), Sampled())
    pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n))
    leading = cycle([0.5 + (0.5 - 1e-15) * F.one_hot(choice, n).double() for choice in pairs.T])
    monkeypatch.setattr("surrogates.hard_layer.uniforms", lambda x, key, shape: next(leading))
    for f in (quadratic, tanh):
        rows = THETA.expand(n * n, n).clone().requires_grad_()
        (slopes,) = torch.autograd.grad(score_function(lambda f=f, rows=rows: f(layer(rows)), layer).sum(), rows)
        mean = THETA.softmax(-1)[pairs].prod(1) @ slopes
        torch.testing.assert_close(mean, categorical.exact(f, THETA), atol=1e-10, rtol=0)


@pytest.mark.parametrize(("dim", "seed"), CATEGORICAL)
def test_the_published_table(dim, seed):
    f, theta = categorical.published_problem(dim, seed)
    for strategy, pair in zip((Sampled(), ZGR(), ReinMax(temperature=TAU)), CATEGORICAL[dim, seed], strict=True):
        assert all(map(agrees, categorical.rescaled(strategy, f, theta), pair)), strategy


@pytest.mark.parametrize(
    ("samples", "T"), [pytest.param(*key, marks=pytest.mark.nightly) if key[0] > 1 else key for key in SAMPLED]
)
def test_the_published_table_where_it_was_sampled(samples, T):
    f, theta = categorical.published_problem(8, 0)
    strategy = GumbelRao(temperature=T, samples=samples)
    got = torch.tensor([categorical.rescaled(strategy, f, theta, DRAWS, seed) for seed in range(10)])
    assert all(is_repetition(column, number) for column, number in zip(got.T, SAMPLED[samples, T], strict=True))
    wrong = SAMPLED[1, 0.5 if T == 1 else 1.0]  # at another temperature it is another number
    assert not all(is_repetition(column, number) for column, number in zip(got.T, wrong, strict=True))


def test_teacher_and_student():
    p = teacher_student.problem()
    v, w = normal((4,), 61), normal((5,), 62)
    torch.testing.assert_close(p.gradient_w(v, w), differences(lambda w: p.loss(v, w), w), atol=1e-8, rtol=0)
    torch.testing.assert_close(p.gradient_v(v, w), differences(lambda v: p.loss(v, w), v), atol=1e-8, rtol=0)
    means = {name: p.mean(slope, v, w) for name, slope in teacher_student.SLOPES.items()}
    torch.testing.assert_close(means["identity"], identity_mean(p, v, w), atol=1e-10, rtol=0)
    torch.testing.assert_close(means["relu"], relu_mean(p, v, w), atol=1e-10, rtol=0)
    u, truth = w / w.norm(), p.gradient_w(v, w)
    for name, mean in means.items():
        tangential = mean - (mean @ u) * u
        assert tangential @ truth / (tangential.norm() * truth.norm()) > 1 - 1e-9, name
    spurious = p.spurious()
    m, ones = 4, p.v_star.sum()
    size = 2 * (m - 1) * ones**2 / (math.sqrt(2 * math.pi) * (m + 1) ** 2)
    torch.testing.assert_close(identity_mean(p, *spurious).norm(), size, atol=1e-10, rtol=0)
    assert relu_mean(p, *spurious).norm() < 1e-10
    assert p.gradient_v(*spurious).norm() < 1e-10


def test_many_teachers_and_students_at_once():
    many = teacher_student.random_teachers(3, seed=5)
    assert (many.v_star.sum(-1) ** 2 < 2.5 * many.v_star.square().sum(-1)).all()  # each has a spurious minimum
    torch.testing.assert_close(many.v_star.norm(dim=-1), torch.full((3,), 1.5, dtype=torch.float64))
    v, w = normal((3, 2, 4), 61), 10 ** torch.tensor([[[-7.0], [0.0]]]) * normal((3, 2, 5), 62)
    broadcast = teacher_student.Problem(many.v_star.unsqueeze(1), many.w_star.unsqueeze(1))
    for slope in teacher_student.SLOPES.values():
        losses, lengths = broadcast.descend(slope, v, w, steps=3)
        for i, j in itertools.product(range(3), range(2)):
            one = teacher_student.Problem(many.v_star[i], many.w_star[i])
            alone = one.descend(slope, v[i, j], w[i, j], steps=3)
            torch.testing.assert_close((losses[:, i, j], lengths[:, i, j]), alone, rtol=1e-9, atol=1e-12)


def test_from_beside_the_spurious_minimum_the_identity_rises_and_the_relu_does_not():
    p = teacher_student.problem()
    v, w = p.spurious()
    aside = normal((5,), 63)
    aside = aside - (aside @ p.w_star) * p.w_star
    w = w + 0.05 * aside / aside.norm()
    losses = {
        name: p.descend(teacher_student.SLOPES[name], v, w, steps=300)[0]
        for name in ("relu", "clipped relu", "identity")
    }
    assert losses["relu"].diff().max() <= 1e-12
    assert losses["clipped relu"].diff().max() <= 1e-12
    assert losses["identity"].diff().max() > 0.01
    assert losses["identity"].max() > 5 * losses["identity"][0]


def test_series_and_direct_sum_and_the_bias_of_the_identity_on_round():
    x = torch.linspace(-1, 1, 201, dtype=torch.float64)
    for T in (0.25, 0.3, 0.5, 1.0):
        for first in (0.0, 0.5):
            for kernel in ("normal", "logistic"):
                direct, series = (f(x, kernel, T, first) for f in (smoothed.stairs_slope, stairs_series))
                torch.testing.assert_close(direct, series, atol=1e-12, rtol=0)
        bias = (1 - smoothed.stairs_slope(x, "normal", T, 0.5)).abs().max().item()
        law = math.exp(-2 * math.pi**2 * T**2)
        assert bias < 2.1 * law
        assert T > 0.5 or bias > 1.9 * law


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_exact_for_its_own_noise(name):
    kernel, p = KERNELS[name], (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    u = torch.rand(200_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for x in (-0.7, 0.2, 1.3):
        fired = ((x + kernel.quantile(u)) > 0).double()
        point = torch.tensor(x, dtype=torch.float64)
        assert abs(fired.mean() - kernel.cdf(point)) <= 4 * fired.std() / len(u) ** 0.5
        assert abs(((x + kernel.quantile(p)) > 0).double().mean() - kernel.cdf(point)) < 1e-5
    right = torch.logspace(-6, 9, 40_001, dtype=torch.float64)
    right = (
        torch.cat([right, torch.tensor([1 - 1e-9, 1.0], dtype=torch.float64)]).sort().values
    )  # a compact law may jump at 1
    edges = torch.cat([-right.flip(0), right])
    area = torch.trapezoid(kernel.density(edges), edges)
    assert area == pytest.approx(1, abs=1e-4)


def test_gumbel_max_argmax_and_plackett_luce():
    x, T = normal((5,), 51), 0.7
    e = -torch.log(-torch.log(torch.rand(200_000, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)))
    moved = x + T * e
    top = moved.amax(-1)
    expected = T * torch.logsumexp(x / T, 0) + T * EULER
    assert abs(top.mean() - expected) < 4 * top.std() / len(top) ** 0.5
    frequency = torch.bincount(moved.argmax(-1), minlength=5) / len(moved)
    assert (frequency - (x / T).softmax(0)).abs().max() < 4 * 0.5 / len(moved) ** 0.5
    chances = inclusion(x, 2, T)
    assert chances.sum() == pytest.approx(2, abs=1e-12)
    counts = torch.bincount(moved.topk(2).indices.flatten(), minlength=5) / len(moved)
    assert (counts - chances).abs().max() < 4 * 0.5 / len(moved) ** 0.5


def test_line_oracle_with_a_box_is_the_wide_finite_difference():
    net, weights = line.network(samples=100, units=6)
    truth = net.truth(weights, KERNELS["uniform"], 0.3)
    assert truth.abs().max() > 0
    for i in range(0, 64, 7):
        for j in range(6):
            step = torch.zeros_like(weights)
            step[i, j] = 0.3
            wide = (net.hard(weights + step) - net.hard(weights - step)) / 0.6
            assert wide.item() == pytest.approx(truth[i, j].item(), abs=1e-12)


def test_networks_by_enumeration_agree_with_differences_and_with_each_other():
    net, weights = binary_network.network(d=4, units=3, samples=6), normal((12,), 1)
    torch.testing.assert_close(gradient(net.expected, weights), differences(net.expected, weights), atol=1e-9, rtol=0)
    deep, first = deep_binary.network(3, units=3, d=4, samples=5), normal((12,), 2)
    torch.testing.assert_close(gradient(deep.expected, first), differences(deep.expected, first), atol=1e-9, rtol=0)


def unbiased(rows: Tensor, truth: Tensor) -> bool:
    return bool(((rows.mean(0) - truth).abs() <= 4 * rows.std(0) / len(rows) ** 0.5).all())


def test_the_score_function_is_unbiased_on_the_network_and_a_biased_estimator_is_caught():
    net, weights = binary_network.network(d=3, units=3, samples=4), normal((9,), 1)
    case = setting("binary network")
    small = type(case)("", "", case.op, weights, gradient(net.expected, weights), net.loss, draws=10_000)
    right = sample(Contender("score_function", None), small).gradients
    assert unbiased(right, small.truth)
    assert not score(right, small.truth).bias > 4 * score(right, small.truth).error
    wrong = right + 0.2 * small.truth
    assert not unbiased(wrong, small.truth)
    assert score(wrong, small.truth).resolved
    st = sample(Contender("sampled", Sampled()), small).gradients
    assert score(st, small.truth).resolved
    assert (
        score(sample(Contender("reinmax", ReinMax()), small).gradients, small.truth).bias < score(st, small.truth).bias
    )


def test_scores_by_hand():
    truth = torch.tensor([2.0, 0.0])
    got = score(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), truth)
    assert (got.bias, got.deviation) == pytest.approx((math.sqrt(2) / 2, math.sqrt(2) / 2))
    assert (got.cosine, got.scale, got.descent) == pytest.approx((math.sqrt(0.5), 1.0, 0.5))
    zero = score(torch.zeros(3, 2), truth)
    assert (zero.cosine, zero.scale, zero.bias) == (None, None, 1.0)
    with pytest.raises(ValueError, match="the true gradient is 0"):
        score(torch.zeros(3, 2), torch.zeros(2))


def test_a_gradient_that_is_zero_has_no_direction():
    a, b = torch.tensor([[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0]]), torch.tensor([2.0, 0.0])
    assert torch.equal(cosine(a, b).isnan(), torch.tensor([False, True, False]))
    torch.testing.assert_close(cosine(a, b)[[0, 2]], torch.tensor([0.6, -1.0]))
    torch.testing.assert_close(scale(a, b)[[0, 2]], torch.tensor([6 / 25, -2.0]))
    assert scale(a, b)[1].isnan()
    samples = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    assert score(samples, b).sample_cosine == 0.5
    assert math.isnan(score(torch.tensor([[math.nan, 0.0]]), b).sample_cosine)


def test_every_strategy_is_scored_and_the_command_writes(tmp_path, capsys):
    names = {c.name.split()[0] for s in all_settings() for c in contenders(s)}
    assert names == {*members.strategies(), "score_function"}
    assert main(["--setting", "categorical, tanh", "--draws", "50", "--out", str(tmp_path)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[:20])) <= 80
    rows = json.loads((tmp_path / "table.json").read_text())
    assert {"reinmax", "zgr", "score_function"} <= {row["contender"] for row in rows}
    assert all((tmp_path / name).stat().st_size for name in ("table.md", "table.svg", "table.png"))
    assert main(["--setting", "nothing"]) == 2
    assert "no setting has 'nothing'" in capsys.readouterr().err


MINE = """
from dataclasses import dataclass
from surrogates.core import Strategy, detached, graft


@dataclass(frozen=True)
class Mine(Strategy):
    def combine(self, op, *x, T, noise):
        return graft(op.hard(*detached(x)), x[0])

    def check(self, op):
        pass
"""


def test_a_new_strategy_and_a_new_kernel_appear(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setattr(surrogates.strategies, "__path__", [*surrogates.strategies.__path__, str(tmp_path)])
    monkeypatch.setitem(KERNELS, "steep", Logistic())
    for cls in STRATEGIES.classes.values():  # the words of KernelName
        monkeypatch.setitem(cls.words, "kernel", Words((*KERNELS, "steep"), True))
    for cached in ("stems", "classes"):
        monkeypatch.delitem(vars(STRATEGIES), cached, raising=False)
    case = setting("Bernoulli, |z - 0.45|^2")
    found = {c.name: c for c in contenders(case)}
    assert {"mine", "mine at x + noise", "sampled steep", "sign, steep noise"} <= {
        *found,
        *(s.name for s in all_settings()),
    }
    rows = sample(found["mine"], case, draws=10).gradients
    assert torch.equal(rows, torch.full_like(rows, 2 * -0.45))  # hard value 0, slope 2 (0 - 0.45)


def test_the_toy_stops_where_it_is_predicted():
    assert [round(toy.loss_at(toy.stationary(q), q), 4) for q in toy.POWERS] == [0.3522, 0.2475, 0.1213]
    assert [round(toy.loss_at(0, q), 4) for q in toy.POWERS] == [0.3019, 0.2025, 0.0911]
    for q in toy.POWERS:
        for shift, sign in ((-0.1, -1), (0.0, 0), (0.1, 1)):  # stable: the mean derivative leads back
            p = torch.tensor(toy.stationary(q), dtype=torch.float64)
            x = (p.logit() + shift).expand(2).clone().requires_grad_()
            z = Sampled()(Heaviside(), x, noise=torch.tensor([1e-9, 1 - 1e-9], dtype=torch.float64))
            assert z.detach().sum() == 1
            chances = torch.where(z.detach() > 0, torch.sigmoid(x.detach()), torch.sigmoid(-x.detach()))
            (slopes,) = torch.autograd.grad((z - toy.C).abs().pow(q).sum(), x)
            mean = (chances * slopes).sum().item()
            assert mean == pytest.approx(0, abs=1e-8) if sign == 0 else mean * sign > 1e-4


def test_gumbel_softmax_has_the_wrong_sign_on_the_toy_unless_it_is_cold():
    """By quadrature over logistic noise of the formulas E f'(s) s (1 - s) / T, s = sigmoid((theta + l) / T)."""
    p, theta, q = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000, -1.0, 2.0
    moved, chance = theta + torch.logit(p), torch.sigmoid(torch.tensor(theta, dtype=torch.float64))
    truth = chance * (1 - chance) * ((1 - toy.C) ** q - toy.C**q)
    assert truth.item() == pytest.approx(0.0197, abs=5e-5)
    for T, soft, hard in ((1.0, -0.0145, -0.0381), (0.02, 0.0178, 0.0171)):
        s = torch.sigmoid(moved / T)
        for value, z, known in (("soft", s, soft), ("hard", (moved > 0).double(), hard)):
            formula = (2 * (z - toy.C) * s * (1 - s) / T).mean().item()
            got = toy.mean_slope(Gumbel(T, value=value), theta, q)
            assert got == pytest.approx(formula, abs=1e-6)
            assert got == pytest.approx(known, abs=6e-5)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "p", "off"),
    [(Sampled(), toy.stationary, 5e-4), (None, lambda q: 0, 5e-3), (ReinMax(), lambda q: 0, 5e-3)],
)
def test_the_toy_trained_ends_where_it_is_predicted(strategy, p, off):
    """Straight-through at 0.3522, 0.2475, 0.1213; the score function and ReinMax at the optimum."""
    expected = torch.tensor([toy.loss_at(p(q), q) for q in toy.POWERS], dtype=torch.float64)
    assert (toy.final_losses(toy.train(strategy)).mean(1) - expected).abs().max() < off


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "published"),
    [(Sampled(), TRACES["straight-through"]), (ReinMax(), TRACES["ReinMax"])],
)
def test_the_published_traces_of_the_toy(strategy, published):
    """Hooper & Shekhovtsov 2026: the mean loss of the first and the last epoch."""
    got = toy.trace(strategy)
    assert (got[[0, -1]] - torch.tensor(published)).abs().max() < 2e-3
