"""Why a gradient is None, zero or NaN: the right line, kind, parameters and remedies, and no false alarm."""

import copy
import importlib
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import surrogates
from products import LAYER_CLASSES, OP_CLASSES, STRATEGY_CLASSES, generator
from surrogates import EmptyCell, HardLayer
from surrogates.diagnosis.remedies import STEMS, always_flat, remedies
from surrogates.diagnosis.report import Diagnosis
from surrogates.ops.floor import Floor
from surrogates.ops.round import Round
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

X, Y = torch.randn(6, 4, generator=generator(0)), torch.tensor([0, 1, 2, 0, 1, 2])
FRONT, BACK = ("front.weight", "front.bias"), ("back.weight", "back.bias")


class Between(nn.Module):
    """Two linear layers and a function between them."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.front, self.back = nn.Linear(4, 8), nn.Linear(8, 3)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.back(self.function(self.front(x)))


class Bare(nn.Module):
    """Parameters by name, and a loss that is written in terms of them."""

    def __init__(self, loss: Callable[..., Tensor], **numbers: object) -> None:
        super().__init__()
        for name, value in numbers.items():
            setattr(self, name, nn.Parameter(torch.as_tensor(value)))
        self.loss = loss

    def forward(self, _: Tensor) -> Tensor:
        return self.loss(**dict(self.named_parameters()))


def between(function: Callable[[Tensor], Tensor]) -> Diagnosis:
    return surrogates.diagnose(Between(function), F.cross_entropy, (X, Y))


def bare(loss: Callable[..., Tensor], **numbers: object) -> Diagnosis:
    return surrogates.diagnose(Bare(loss, **numbers), lambda loss: loss, X)


class StraightRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round() * 2 / 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Stopped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round() * 2 / 2

    @staticmethod
    def backward(ctx, gradient):
        return None


@torch.no_grad()
def without_gradient(x: Tensor) -> Tensor:
    return x * 2


def k_hot(x: Tensor) -> Tensor:
    indices = x.topk(2).indices
    return torch.zeros_like(x).scatter(-1, indices, 1.0)


# function between the layers, kind, operation, a word of the reason, ops among the remedies
CUTS = [
    (lambda x: (x > 0.5).float(), "gt", "bool", {"Threshold", "Where"}),
    (lambda x: (x <= 0.5).to(x.dtype), "le", "bool", {"Threshold"}),
    (lambda x: F.one_hot(x.argmax(-1), 8).float(), "argmax", "int64", {"ArgMax"}),
    (lambda x: F.one_hot(x.max(-1).indices, 8).float(), "max", "int64", {"ArgMax"}),
    (k_hot, "topk", "int64", {"TopKMask"}),
    (lambda x: x.long().float(), "long", "int64", {"Trunc", "Round"}),
    (lambda x: x.to(torch.int8).float(), "to", "int8", {"Trunc"}),
    (lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.5])).float(), "bucketize", "int64", {"Floor"}),
    (lambda x: x.round().detach(), "detach", "graft", set()),
    (lambda x: x.data * 2, "data", "graft", set()),
    (without_gradient, "mul", "no_grad", set()),
    (lambda x: torch.tensor(x.tolist()), "tolist", "Python", set()),
    (lambda x: torch.full_like(x, x.sum().item()), "item", "Python", set()),
    (lambda x: torch.from_numpy(x.detach().numpy()), "detach", "graft", set()),
    (lambda x: torch.from_numpy(x.detach().numpy() + 1), "numpy", "Python", set()),
    (lambda x: torch.ones_like(x) if x.sum() > 0 else x.detach(), "__bool__", "Python", set()),
    (lambda x: nn.Parameter(x), "Parameter", "leaf", set()),
    (Stopped.apply, "Stopped", "returns None", set()),
    (lambda x: torch.vmap(lambda row: F.one_hot(row.argmax(-1), 8).float())(x), "argmax", "int64", {"ArgMax"}),
    (lambda x: torch.autograd.grad(x.tanh().sum(), x)[0], "grad", "no graph", set()),
]


@pytest.mark.parametrize(("function", "operation", "word", "ops"), CUTS, ids=[cut[1] for cut in CUTS])
def test_cut(function: Callable[[Tensor], Tensor], operation: str, word: str, ops: set[str]) -> None:
    model = Between(function)
    if operation == "__bool__":
        nn.init.constant_(model.front.bias, 100.0)
    found = surrogates.diagnose(model, F.cross_entropy, (X, Y))
    assert found.outcome == "no graph"
    assert found.named("none") == FRONT
    assert found.named("finite") == BACK
    (finding,) = [f for f in found.findings if f.operation == operation]
    assert (finding.kind, finding.parameters) == ("cut", FRONT)
    assert word in finding.reason
    assert ops <= {remedy.op.__name__ for remedy in finding.remedies}
    assert operation == "Parameter" or finding.place.file == __file__


FLAT = [
    (torch.round, "round", "every batch", {"Round"}),
    (torch.floor, "floor", "every batch", {"Floor"}),
    (lambda x: x.clone().sign_(), "sign", "every batch", {"Sign"}),
    (lambda x: torch.relu(x - 100), "relu", "whole batch", {"ReLU"}),
    (lambda x: torch.clamp(x + 100, 0, 1), "clamp", "whole batch", {"Clamp"}),
    (lambda x: torch.div(x, 0.1, rounding_mode="floor"), "div", "zero everywhere", {"Floor", "Trunc"}),
    (lambda x: x * torch.zeros(8), "mul", "by zeros", set()),
]


@pytest.mark.parametrize(("function", "operation", "word", "ops"), FLAT, ids=[flat[1] for flat in FLAT])
def test_flattened(function: Callable[[Tensor], Tensor], operation: str, word: str, ops: set[str]) -> None:
    found = between(function)
    assert found.outcome == "zero gradient"
    assert set(FRONT) <= set(found.named("zero"))
    assert found.named("none") == ()
    (finding,) = [f for f in found.findings if set(FRONT) <= set(f.parameters)]
    assert (finding.kind, finding.operation) == ("flattened", operation)
    assert word in finding.reason
    assert ops == {remedy.op.__name__ for remedy in finding.remedies}
    assert finding.place.file == __file__
    assert finding.place.layer is not None


NOT_FINITE = [
    (lambda x: torch.where(x > 0, x.sqrt(), x), "sqrt", "0 * inf"),
    (lambda x: torch.log(x), "log", "log turns finite numbers into NaN"),
    (lambda x: (x * 0).sqrt(), "sqrt", "derivative"),
    (lambda x: torch.exp(x * 1e4), "exp", "exp turns finite numbers into NaN"),
]


@pytest.mark.parametrize(("function", "operation", "word"), NOT_FINITE, ids=[case[1] for case in NOT_FINITE])
def test_not_finite(function: Callable[[Tensor], Tensor], operation: str, word: str) -> None:
    found = between(function)
    assert found.outcome == "not finite"
    assert set(FRONT) <= {*found.named("nan"), *found.named("inf")}
    (finding,) = [f for f in found.findings if f.kind == "not finite"]
    assert (finding.operation, finding.place.file) == (operation, __file__)
    assert word in finding.reason


@pytest.mark.parametrize(
    ("function", "operation", "op"),
    [
        (lambda x: torch.heaviside(x, torch.zeros(())), "heaviside", "Heaviside"),
        (lambda x: x // 0.5, "__floordiv__", "Floor"),
    ],
)
def test_exception_in_backward(function: Callable[[Tensor], Tensor], operation: str, op: str) -> None:
    found = between(function)
    assert found.outcome == "exception"
    assert isinstance(found.error, RuntimeError)
    (finding,) = found.findings
    assert (finding.kind, finding.operation, finding.place.file) == ("exception", operation, __file__)
    assert {remedy.op.__name__ for remedy in finding.remedies} == {op}
    assert set(found.parameters.values()) == {"unknown"}


def test_exception_in_forward_names_what_made_the_wrong_type() -> None:
    found = between(lambda x: x.long())
    assert found.outcome == "exception"
    assert [(f.kind, f.operation) for f in found.findings] == [("exception", "linear"), ("cut", "long")]
    assert found.findings[1].parameters == FRONT
    found = surrogates.diagnose(Between(torch.relu), lambda *_: {}["missing"], (X, Y))
    assert isinstance(found.error, KeyError)
    assert found.findings[0].place.file == __file__


def test_a_loss_that_is_no_scalar() -> None:
    found = surrogates.diagnose(Between(torch.relu), lambda y, _: y, (X, Y))
    assert found.outcome == "exception"
    assert "(6, 3)" in found.findings[0].reason


def test_a_loss_in_which_the_model_has_no_part() -> None:
    for loss_fn in (lambda *_: 1.0, lambda *_: torch.ones(()), lambda *_: torch.ones((), requires_grad=True)):
        found = surrogates.diagnose(Between(torch.relu), loss_fn, (X, Y))
        assert found.outcome == "no graph"
        assert set(found.parameters.values()) == {"none"}
        assert [f.operation for f in found.findings] == ["the loss"]
    found = surrogates.diagnose(Between(torch.relu), lambda y, _: y.sum().item(), (X, Y))
    assert [(f.operation, f.parameters) for f in found.findings] == [("item", FRONT + BACK)]


def test_numbers_that_are_not_finite_from_the_start() -> None:
    model = Between(torch.relu)
    finding = surrogates.diagnose(model, F.cross_entropy, (X * torch.nan, Y)).findings[0]
    assert (finding.operation, finding.place.module) == ("linear", "front")
    assert "an input" in finding.reason
    model.back.weight.data[0, 0] = torch.nan
    finding = surrogates.diagnose(model, F.cross_entropy, (X, Y)).findings[0]
    assert (finding.operation, finding.place.module) == ("linear", "back")
    assert "the parameter back.weight" in finding.reason


def test_a_factor_that_is_zero() -> None:
    model = Between(torch.tanh)
    nn.init.zeros_(model.back.weight)
    (finding,) = surrogates.diagnose(model, F.cross_entropy, (X, Y)).findings
    assert (finding.operation, finding.place.module, finding.parameters) == ("linear", "back", FRONT)
    assert "the parameter back.weight" in finding.reason
    found = between(lambda x: torch.relu(x - 100))  # and the layer behind gets zeros as its input
    assert [(f.operation, f.parameters) for f in found.findings] == [("relu", ("back.weight", *FRONT))]


def test_each_of_several_faults_is_named_with_its_parameters() -> None:
    numbers = {"a": [0.3, 1.7], "b": [0.3, 1.7], "c": [0.3, 1.7], "d": [0.3, 1.7], "e": [0.0]}
    found = bare(lambda a, b, c, d, e: (a.floor() + (b > 0) + c.detach() * d).sum() + e.sqrt().sum(), **numbers)
    assert found.parameters == {"a": "zero", "b": "none", "c": "none", "d": "finite", "e": "inf"}
    assert found.outcome == "no graph"
    assert {(f.operation, f.parameters) for f in found.findings} == {
        ("floor", ("a",)), ("gt", ("b",)), ("detach", ("c",)), ("sqrt", ("e",)),
    }  # fmt: skip


def test_source_line_and_module() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Tanh(), Between(torch.round).back, nn.Threshold(9.0, 0.0)))
    finding = surrogates.diagnose(model, F.cross_entropy, (X, Y)).findings[0]
    assert finding.place.file is None  # torch's own modules only: no line of the user's
    assert (finding.place.module, type(finding.place.layer)) == ("1.2", nn.Threshold)
    finding = between(torch.round).findings[0]
    assert finding.place.function == "forward"
    assert finding.place.code == "return self.back(self.function(self.front(x)))"
    line = Path(__file__).read_text().splitlines()[finding.place.line - 1]
    assert line.strip() == finding.place.code


def test_a_line_of_a_package_whose_folder_begins_like_torchs_is_found() -> None:
    """As torchvision's does."""
    file, names = f"{Path(torch.__file__).parent}vision/net.py", {}
    exec(compile("def code(x): return x.round()", file, "exec"), names)
    assert between(names["code"]).findings[0].place.file == file
    with surrogates.through("ste") as report:
        names["code"](X.clone().requires_grad_())
    assert [row.where for row in report.replaced] == ["net.py:1"]


# no false alarm


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(),
            nn.Linear(36, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.repeat(1, 16)[:, :64].view(-1, 1, 8, 8))


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 3, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.embed(x.abs().long().clamp(max=9)).sum(1)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Linear(1, 8), nn.Linear(8, 3)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        return self.out(self.block(self.embed(x.unsqueeze(-1)), src_mask=mask, is_causal=True).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTM(1, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cell(x.unsqueeze(-1))[0][:, -1])


class Busy(nn.Module):
    """Logs a number, counts, keeps a tensor, draws, writes in place, and has a layer that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused, self.calls = nn.Linear(4, 3), nn.Linear(4, 3), 0
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x + 0.1 * torch.rand(4) * random.random())
        self.calls += 1
        self.mean += y.detach().mean()
        self.kept = y
        if y.max().item() > 100:
            raise ValueError("large")
        out = torch.zeros(6, 3)
        out[:, 0] = y[:, 0]
        out[:, 1:].add_(y[:, 1:])
        return torch.vmap(lambda row: row * 2)(out.relu_())


def parametrized() -> nn.Module:
    model = Between(torch.tanh)
    nn.utils.parametrizations.spectral_norm(model.front)
    nn.utils.parametrizations.weight_norm(model.back)
    return model


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    model[1].weight = model[0].weight
    return model


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: Between(torch.relu),
    "cnn": Convolutions,
    "transformer": Transformer,
    "lstm": Recurrent,
    "busy": Busy,
    "frozen": lambda: frozen(),
    "parametrized": parametrized,
    "tied": tied,
    "compiled": lambda: torch.compile(Between(torch.relu), backend="eager"),
    "checkpointed": lambda: Between(lambda x: checkpoint(torch.tanh, x, use_reentrant=False)),
    "custom Function": lambda: Between(StraightRound.apply),
    "popular straight-through": lambda: Between(lambda x: x + (x.round() - x).detach()),
    "hard layer": lambda: Between(HardLayer(Round(), StraightThrough())),
    "noisy hard layer": lambda: Between(HardLayer(Floor(), Rewrite(form="dither"))),
    "gradient penalty": lambda: Between(lambda x: torch.autograd.grad(x.tanh().sum(), x, create_graph=True)[0]),
    "vmap": lambda: Between(torch.vmap(torch.tanh)),
    "torch.func.grad": lambda: Between(torch.func.grad(lambda x: x.tanh().sum())),
    "scripted": lambda: torch.jit.script(nn.Sequential(nn.Linear(4, 3))),
    "sparse": Sparse,
    "masked attention": lambda: Between(lambda x: x.masked_fill(x < 0, -torch.inf).softmax(-1)),
}


def frozen() -> nn.Module:
    model = Between(torch.relu)
    model.front.requires_grad_(False)
    return model


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_and_untouched(name: str) -> None:
    torch.manual_seed(3)
    random.seed(3)
    model = HEALTHY[name]()
    kept = {parameter: torch.ones_like(parameter) for parameter in model.parameters()}
    for parameter, gradient in kept.items():
        parameter.grad = gradient
    before, generators = copy.deepcopy(model.state_dict()), (torch.get_rng_state(), random.getstate())
    modes, attributes = [m.training for m in model.modules()], [set(vars(m)) for m in model.modules()]
    counts = [getattr(m, "calls", getattr(m, "draws", None)) for m in model.modules()]
    found = surrogates.diagnose(model, F.cross_entropy, (X, Y))
    assert found.healthy, str(found)
    assert found.findings == ()
    assert set(found.parameters) == {parameter for parameter, _ in model.named_parameters()}
    expected = {"frozen": ("frozen", FRONT), "busy": ("unused", ("unused.weight", "unused.bias"))}
    if name in expected:
        state, names = expected[name]
        assert found.named(state) == names
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    assert all(parameter.grad is gradient and bool((gradient == 1).all()) for parameter, gradient in kept.items())
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]
    assert [m.training for m in model.modules()] == modes
    assert [set(vars(m)) for m in model.modules()] == attributes
    assert [getattr(m, "calls", getattr(m, "draws", None)) for m in model.modules()] == counts


def test_state_is_restored_after_an_exception_too() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
    model.train()
    before = copy.deepcopy(model.state_dict())
    found = surrogates.diagnose(model, lambda y, t: F.cross_entropy(y, t.float().int()), (X, Y))
    assert found.outcome == "exception"
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))


def test_it_runs_inside_no_grad_and_leaves_the_modes_alone() -> None:
    model = Between(torch.relu)
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert surrogates.diagnose(model, F.cross_entropy, (X, Y)).healthy
            assert not torch.is_grad_enabled()
            assert torch.is_inference_mode_enabled() == (off is torch.inference_mode)


# this library's own


def test_a_hard_layer_is_named_by_its_op_and_strategy() -> None:
    finding = between(HardLayer(Floor(), Subgradient())).findings[0]
    assert finding.operation == "Floor under Subgradient"
    assert finding.place.module == "function"
    assert finding.place.file == __file__
    assert finding.remedies[0].op is Floor


def test_remedies_exist_and_are_those_that_the_ops_declare() -> None:
    checked = 0
    for name in {*STEMS, *OP_CLASSES, "argmax", "max"}:
        for remedy in remedies(name):
            assert remedy.op in OP_CLASSES.values()
            for stem, cls in STRATEGY_CLASSES.items():
                try:
                    cls().check(remedy.op())
                    exists = stem != "subgradient"
                except EmptyCell:
                    exists = False
                assert (cls in remedy.strategies) == exists
                checked += 1
    assert checked > 100
    assert remedies("softmax") == ()
    assert LAYER_CLASSES
    assert {name: always_flat(name) for name in ("round", "sign", "relu", "abs", "max", "tanh")} == {
        "round": True, "sign": True, "relu": False, "abs": False, "max": None, "tanh": None,
    }  # fmt: skip


def test_a_remedy_that_is_taken_cures() -> None:
    for function in (torch.round, torch.floor, lambda x: torch.heaviside(x, torch.zeros(()))):
        for remedy in between(function).findings[0].remedies:
            for strategy in remedy.strategies:
                layer = HardLayer(remedy.op(), strategy())
                found = between(layer)
                assert found.healthy, (layer, str(found))


# the text


@pytest.mark.parametrize("case", [*CUTS, *FLAT, *NOT_FINITE], ids=lambda case: case[1])
def test_the_text_fits_80_columns(case: tuple) -> None:
    found = between(case[0])
    text = str(found)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert all(name in text for name in FRONT)


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the loss, whose digits may differ, and the strategies, which become more."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "diagnose.md").read_text()
    code, shown = (page.split(fence)[1].split("```")[0] for fence in ("```python\n", "```text\n"))
    (tmp_path / "gate.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    with torch.random.fork_rng(devices=[]):
        exec(compile(code, str(tmp_path / "gate.py"), "exec"), namespace)

    def steady(text: str) -> str:
        return re.sub(r"\(loss .*?\)|(?<= with )[A-Z]\w+(,\s+\w+)*", "", text).strip()

    assert steady(str(namespace["diagnosis"])) == steady(shown)


def test_what_the_text_says_of_through_holds() -> None:
    """The block that it recommends gives the parameters their gradient."""
    for function in (torch.round, torch.floor, lambda x: (x > 0.5).float()):
        model = Between(function)
        assert "surrogates.through" in str(surrogates.diagnose(model, F.cross_entropy, (X, Y)))
        with surrogates.through(StraightThrough()):
            assert surrogates.diagnose(model, F.cross_entropy, (X, Y)).healthy
    for without in (torch.detach, lambda x: torch.clamp(x + 100, 0, 1)):  # far outside, a clip's derivative is 0
        assert "surrogates.through" not in str(between(without))


def test_long_names_and_lines_are_folded() -> None:
    model = nn.ModuleDict({"a_rather_long_name_of_a_module_" * 4: Between(torch.round)})
    model.forward = lambda x: next(iter(model.values()))(x)  # a line that does not fit into eighty columns
    text = str(surrogates.diagnose(model, F.cross_entropy, (X, Y)))
    assert max(map(len, text.splitlines())) <= 80


# batches and misuse


def test_kinds_of_batches() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.layer(a + b)

    model = Two()
    assert surrogates.diagnose(model, F.cross_entropy, ((X, X), Y)).healthy
    assert surrogates.diagnose(model, F.cross_entropy, [{"a": X, "b": X}, Y]).healthy
    assert surrogates.diagnose(model, torch.sum, {"a": X, "b": X}).healthy
    assert surrogates.diagnose(Between(torch.relu), lambda y: y.sum(), X).healthy


def test_misuse_is_told_before_work_starts() -> None:
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, got function"):
        surrogates.diagnose(lambda x: x, F.cross_entropy, (X, Y))
    with pytest.raises(TypeError, match="loss_fn must be callable"):
        surrogates.diagnose(Between(torch.relu), X, (X, Y))
    with pytest.raises(ValueError, match="no shape yet: weight, bias"):
        surrogates.diagnose(nn.LazyLinear(3), F.cross_entropy, (X, Y))
    with pytest.raises(TypeError, match="a tensor of one number, got tuple"):
        surrogates.diagnose(Between(torch.relu), lambda y, t: (y, t), (X, Y))
    model = Between(lambda x: checkpoint(torch.tanh, x, use_reentrant=True))
    with pytest.raises(ValueError, match="use_reentrant=False"):
        surrogates.diagnose(model, F.cross_entropy, (X, Y))
    with pytest.raises(ValueError, match="all are frozen"):
        surrogates.diagnose(Between(torch.relu).requires_grad_(False), F.cross_entropy, (X, Y))


# the command

EXAMPLES = """
import torch
from torch import nn
batch = torch.randn(5, 4), torch.randn(5, 3)
def healthy(): return nn.Linear(4, 3), nn.functional.mse_loss, batch
def rounded(): return nn.Linear(4, 3), lambda y, t: (y.round() - t).square().mean(), batch
def pair(): return nn.Linear(4, 3), batch
def no_module(): return torch.relu, nn.functional.mse_loss, batch
def broken(): return 1 / 0
number = 3
"""


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("examples:healthy", 0, "healthy"),
        ("examples:rounded", 1, "flattened: round"),
        ("examples:pair", 2, "got a tuple of 2"),
        ("examples:no_module", 2, "torch.nn.Module, got builtin_function_or_method"),
        ("examples:broken", 2, "ZeroDivisionError: division by zero"),
        ("examples:number", 2, "examples:number must be a function, got int"),
        ("examples:absent", 2, "examples has no function 'absent'"),
        ("absent:healthy", 2, "there is no module 'absent'"),
        ("absent.deeper:healthy", 2, "there is no module 'absent'"),
        ("faulty:healthy", 2, "importing faulty raised SyntaxError"),
        ("examples", 2, "must be module:function"),
    ],
)
def test_command(
    target: str, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:

    command = importlib.import_module("surrogates.diagnose")
    (tmp_path / "examples.py").write_text(EXAMPLES)
    (tmp_path / "faulty.py").write_text("def")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("examples", "faulty"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert command.main([target]) == code
    out, error = capsys.readouterr()
    assert words in (error if code == 2 else out)
    assert (out == "") == (code == 2)
    assert surrogates.diagnose(nn.Linear(4, 3), F.cross_entropy, (X, Y)).healthy  # still callable


@pytest.mark.slow  # a process of its own
def test_command_as_a_process(tmp_path: Path) -> None:
    (tmp_path / "examples.py").write_text(EXAMPLES)
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-m", "surrogates.diagnose", "examples:rounded"],
        cwd=tmp_path, env={"PYTHONPATH": root}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "examples.py:6, in <lambda>" in done.stdout


# public cases


def test_a_threshold_in_the_loss_is_found_to_have_no_graph() -> None:
    """Case A01."""
    found = bare(lambda x: (x > 0.5).float().sum(), x=[0.2, 1.7])
    assert found.outcome == "no graph"
    assert found.named("none") == ("x",)
    assert found.findings[0].operation == "gt"
    assert {"StraightThrough", "Smooth"} <= {s.__name__ for s in found.findings[0].remedies[0].strategies}


@pytest.mark.parametrize("name", ["round", "floor", "sign", "trunc", "ceil"])
def test_a_zero_gradient_is_traced_to_the_rounding(name: str) -> None:
    """Case A02."""
    found = bare(lambda x: getattr(torch, name)(x).sum(), x=[0.2, 1.7])
    assert found.parameters == {"x": "zero"}
    assert (found.findings[0].kind, found.findings[0].operation) == ("flattened", name)


def test_an_operation_that_raises_is_reported_as_an_exception() -> None:
    """Case A02."""
    assert bare(lambda x: torch.heaviside(x, torch.zeros(())).sum(), x=[0.2, 1.7]).outcome == "exception"
    assert bare(lambda x: (x // 1).sum(), x=[0.2, 1.7]).outcome == "exception"


def test_a_histogram_in_the_loss_is_found_to_have_no_graph() -> None:
    """Case A03."""
    found = bare(lambda x: torch.histc(x, 4, 0, 1).square().sum(), x=[0.2, 0.7])
    assert (found.outcome, found.findings[0].operation) == ("no graph", "histc")
    found = bare(lambda x, y: torch.histc(x, 4, 0, 1).square().sum() + y.sum(), x=[0.2, 0.7], y=[1.0])
    assert found.parameters == {"x": "none", "y": "finite"}


def test_a_cut_off_without_a_gradient_is_named_with_the_op_that_gives_it_one() -> None:
    """Case A04."""
    rows = torch.randn(10, 3, generator=generator(1))
    found = bare(lambda x, threshold: x[x.norm(dim=1) < threshold].sum(), x=rows, threshold=1.5)
    assert found.parameters == {"x": "finite", "threshold": "none"}
    assert found.findings[0].operation in ("lt", "gt")  # Python asks the Parameter, the subclass, first
    assert found.findings[0].parameters == ("threshold",)
    assert "Threshold" in {remedy.op.__name__ for remedy in found.findings[0].remedies}


def test_nan_from_a_branch_that_is_not_taken_is_traced_to_its_root() -> None:
    """Case A06."""
    found = bare(lambda x: torch.where(x > 0, x.sqrt(), x).sum(), x=[-1.0, -4.0])
    assert found.parameters == {"x": "nan"}
    assert found.findings[0].operation == "sqrt"
    assert bare(lambda x: torch.where(x > 0, torch.where(x > 0, x, 1).sqrt(), x).sum(), x=[-1.0, -4.0]).healthy


def test_a_detached_result_is_found() -> None:
    """Case A07."""
    found = bare(lambda x: x.round().detach().sum(), x=[0.2, 1.7])
    assert (found.outcome, found.findings[0].operation) == ("no graph", "detach")


def test_a_conversion_to_integers_is_found() -> None:
    """Case A08."""
    found = bare(lambda x: x.to(torch.int8).float().sum(), x=[0.2, 1.7])
    assert (found.outcome, found.findings[0].operation) == ("no graph", "to")


def test_a_mask_made_of_indices_is_found_and_the_op_named() -> None:
    """Case A09."""
    found = bare(lambda s: (k_hot(s) * torch.arange(6.0)).sum(), s=torch.randn(1, 6, generator=generator(2)))
    assert (found.outcome, found.findings[0].operation) == ("no graph", "topk")
    assert found.findings[0].tried.by_op == {"permutation": "ste"}


def test_nan_at_the_root_of_0_is_traced_to_the_root() -> None:
    """Case D03."""
    found = bare(lambda x: torch.sqrt((x - 1) ** 2), x=1.0)
    assert found.parameters == {"x": "nan"}
    assert found.findings[0].operation == "sqrt"


def test_no_gradient_at_all_is_no_zero() -> None:
    """Case F02."""
    found = bare(lambda x: x.detach().sum(), x=[0.0])
    assert found.outcome == "no graph"
    assert not found.healthy
