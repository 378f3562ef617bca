"""Hard models leave torch: torch.export for every op and component, ONNX where its op set allows."""

import copy
import io
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from experiments.models.block import Block
from products import LAYER_CLASSES, OPS, arity, extremes, filled, generator, label, same, sample
from surrogates import HardLayer, calibrate, convert, key_noise
from surrogates.core import Op
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.ste import StraightThrough

slow, nightly = pytest.mark.slow, pytest.mark.nightly
NOT_TO_ONNX = {"k_winners", "permutation", "top_k", "top_k_mask"}  # as docs/own_model.md says
VARIANTS: dict[str, list[dict[str, object]]] = {
    "quantized_activation": [{"range": "learned_step"}, {"range": "learned_clip"}, {"bits": 1}],
    "floor": [{"step": 0.1, "low": -0.5, "high": 0.5}],
}
BRIEF = {"hard_gate", "quantized_weight"}  # a branch of its own, a parametrized weight; the rest is slow
COMPONENTS = [
    pytest.param(name, kwargs, marks=[] if name in BRIEF and not kwargs else pytest.mark.slow)
    for name in LAYER_CLASSES
    for kwargs in [{}, *VARIANTS.get(name, [])]
]
every_component = pytest.mark.parametrize(("name", "kwargs"), COMPONENTS, ids=str)
X = torch.randn(5, 3, 8, 8, generator=generator(0))


def trained(name: str, kwargs: dict[str, object]) -> nn.Module:
    """A small net with the component, after three steps under a strategy, in evaluation."""
    torch.manual_seed(0)
    component = LAYER_CLASSES[name](StraightThrough(), **kwargs)
    block = Block(component, 8, 27, partial(nn.Conv2d, 3, kernel_size=3), nn.BatchNorm2d)
    model = nn.Sequential(block, nn.Flatten(), nn.LazyLinear(2))
    calibrate(model, X)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        model(X).square().sum().backward()
        optimizer.step()
    return model.eval()


def exported(module: nn.Module, x: Sequence[Tensor]) -> torch.export.ExportedProgram:
    """With free sizes where the module allows them."""
    free = tuple(dict.fromkeys(range(t.dim()), Dim.AUTO) for t in x)
    return torch.export.export(module, tuple(x), dynamic_shapes=(free,) if isinstance(module, HardLayer) else free)


@every_component
def test_a_trained_component_is_exported_with_equal_outputs(name: str, kwargs: dict[str, object]) -> None:
    model = trained(name, kwargs)
    program = exported(model, [X])
    for batch in (X, X[:2], 3 * X.flip(0)):
        assert torch.equal(program.module()(batch), model(batch))
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    assert torch.equal(torch.export.load(stream).module()(X), model(X))


def inputs(op: Op) -> list[list[Tensor]]:
    """Ordinary, infinite and huge, tied, and missing numbers."""
    tied = torch.tensor([[0.0, 0.0, 0.5, -0.5], [1.5, 2.5, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    missing = sample(op, dtype=torch.float32)
    missing[0] = missing[0].masked_fill(torch.arange(4) == 1, torch.nan)
    return [sample(op, dtype=torch.float32), extremes(op, torch.float32), filled(op, *[tied] * arity(op)), missing]


@pytest.mark.parametrize("op", [pytest.param(op, marks=slow if op == type(op)() else nightly) for op in OPS], ids=label)
def test_every_op_is_exported_with_equal_outputs(op: Op) -> None:
    layer = HardLayer(op, StraightThrough()).eval() if op.declares("proxy") else HardLayer(op, Rewrite()).eval()
    program = exported(layer, inputs(op)[0])
    for x in inputs(op):
        assert same(program.module()(*x), layer(*x))


def converted() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Hardswish(), nn.Flatten(), nn.PReLU()]
    model = nn.Sequential(*layers)
    convert(model, StraightThrough())
    return model


def test_a_converted_model_is_exported_like_the_original() -> None:
    model = converted().eval()
    program = exported(model, [X])
    assert torch.equal(program.module()(X), model(X))
    assert not any("temperature" in name for name in program.state_dict)


def test_the_mode_of_the_moment_is_exported() -> None:
    """A model in training exports its surrogate, not the hard op: eval() comes first, as for dropout."""
    layer = HardLayer(next(op for op in OPS if type(op).__name__ == "Round"), Rewrite())
    key_noise(layer, 0, 0)
    assert not torch.equal(exported(copy.deepcopy(layer).eval(), [X]).module()(X), layer(X))


# ONNX, an optional extra


def onnx(module: nn.Module, x: Sequence[Tensor]) -> object:
    """A session of onnxruntime."""
    runtime = pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
    program = torch.onnx.export(exported(module, x), dynamo=True, verbose=False)
    stream = io.BytesIO()
    program.save(stream)
    return runtime.InferenceSession(stream.getvalue())


def run(session: object, x: Sequence[Tensor]) -> Tensor:
    names = [argument.name for argument in session.get_inputs()]
    return torch.from_numpy(session.run(None, dict(zip(names, (t.numpy() for t in x), strict=True)))[0])


@slow
@every_component
def test_a_component_in_onnx_gives_equal_outputs(name: str, kwargs: dict[str, object]) -> None:
    component = trained(name, kwargs)[0].component
    x = [torch.randn(5, 8 * n, 6, 6, generator=generator(1)) for n in component.branches.values()]
    if name in NOT_TO_ONNX:
        with pytest.raises(torch.onnx.OnnxExporterError):
            onnx(component, x)
        return
    session = onnx(component, x)
    for batch in (x, [t[:2] for t in x]):
        assert torch.equal(run(session, batch), component(*batch))


@pytest.mark.parametrize("op", [pytest.param(op, marks=slow if op == type(op)() else nightly) for op in OPS], ids=label)
def test_an_op_in_onnx_gives_equal_outputs(op: Op) -> None:
    layer = HardLayer(op, StraightThrough()).eval() if op.declares("proxy") else HardLayer(op, Rewrite()).eval()
    *numbers, missing = inputs(op)
    if type(op).__module__.rpartition(".")[2] in NOT_TO_ONNX:
        pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
        with pytest.raises(torch.onnx.OnnxExporterError):
            onnx(layer, numbers[0])
        return
    session = onnx(layer, numbers[0])
    if type(op).__name__ == "Quantile":  # onnxruntime rounds its interpolation elsewhere
        torch.testing.assert_close(run(session, numbers[0]), layer(*numbers[0]))
        return
    for x in numbers if type(op).__name__ in ("Max", "Min") else [*numbers, missing]:  # whose NaN onnxruntime drops
        assert same(run(session, x), layer(*x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quantized_weight", "binary", "hard_gate", "converted"])
def test_a_whole_model_in_onnx_gives_the_same_numbers(name: str) -> None:
    """Up to the rounding of its convolutions, which are not torch's."""
    model = converted().eval() if name == "converted" else trained(name, {})
    torch.testing.assert_close(run(onnx(model, [X]), [X]), model(X).detach(), rtol=1e-4, atol=1e-4)
