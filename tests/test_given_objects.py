"""A model and data given as objects: what is trained, what is recorded, and what is refused without them."""

import os
import signal

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from torch import nn
from torch.utils.data import TensorDataset

import hardgrad as hg
from experiments import evaluate
from experiments.compare.reading.run_record import read_run
from experiments.data.dataset import DataError
from experiments.training.given import data_keys, make_dataset, model_digest
from experiments.training.trainer import Trainer
from runs import read_files_once
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

SHORT = {"max_steps": 4, "eval_every": 2, "log_every": 1, "batch_size": 8, "quiet": True}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    read_files_once()
    GlobalHydra.instance().clear()
    monkeypatch.chdir(tmp_path)


def network(seed=0, classes=3):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hard = hg.HardLayer("floor", "subgradient")
        return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), hard, nn.Linear(8, 8), hard, nn.Linear(8, classes))


def parts():
    x = torch.randn(60, 2, 3, generator=torch.Generator().manual_seed(0))
    y = x.flatten(1)[:, :3].argmax(1)
    return tuple((x[start : start + 20], y[start : start + 20]) for start in (0, 20, 40))


def test_a_copy_is_trained_under_the_strategy_and_recorded_by_digests():
    net, data = network(), parts()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    run = hg.train(model=net, data=data, strategy="smooth", seed=3, **SHORT)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net[2].strategy == hg.HardLayer("floor", "subgradient").strategy
    assert isinstance(run.model, nn.Sequential)
    assert isinstance(run.model[2].strategy, Smooth)
    assert run.model[2] is run.model[4]  # as in the object
    assert not torch.equal(run.model[1].weight, net[1].weight)
    record = read_run(run.folder)
    assert [record.options[group] for group in ("component", "model", "data")] == ["given"] * 3
    assert record.config["model.digest"] == model_digest(net)
    assert (record.config["data.classes"], record.config["data.shape"]) == (3, "2x3")


@pytest.mark.slow
def test_a_run_starts_from_the_weights_of_the_object():
    runs = [hg.train(model=network(), data=parts(), optimizer={"lr": 1e-30}, seed=seed, **SHORT) for seed in (0, 1)]
    assert all(torch.equal(run.model[1].weight, network()[1].weight) for run in runs)


@pytest.mark.slow
def test_an_interrupted_run_needs_the_same_objects(monkeypatch, capsys):
    advance = Trainer.advance

    def stopping(self):
        os.kill(os.getpid(), signal.SIGINT) if self.step == 2 else None
        return advance(self)

    def train(model=None):
        return hg.train(model=model or network(), data=parts(), folder="run", **SHORT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stopping)
        with pytest.raises(KeyboardInterrupt):
            train()
    with pytest.raises(Exception, match=r"model\.digest"):
        train(network(seed=1))
    assert train().status == "DONE"
    whole = hg.train(model=network(), data=parts(), folder="whole", **SHORT)
    assert whole.result == hg.Run("run").result
    assert evaluate.main(["run"]) == 2
    assert "was given as an object and is not saved; give it again" in capsys.readouterr().err


def test_loading_needs_the_model():
    run = hg.train(model=network(), data=parts(), strategy="ste", **SHORT)
    for load in (lambda: hg.load(run), lambda: hg.Run(run).model):
        with pytest.raises(hg.ConfigError, match=r"hardgrad.load\(run, model=...\)"):
            load()
    loaded = hg.load(run, model=network(seed=5))
    assert all(torch.equal(value, run.model.state_dict()[name]) for name, value in loaded.state_dict().items())
    assert isinstance(loaded[2].strategy, StraightThrough)
    assert not loaded.training
    with pytest.raises(Exception, match="does not fit"):
        hg.load(run, model=nn.Sequential(*network()[:3], nn.Linear(8, 8), nn.Linear(8, 3)))


def test_a_digest_is_that_of_class_layers_and_weights():
    same = [network(), network()]
    assert model_digest(same[0]) == model_digest(same[1])
    same[1][1].weight.data[0, 0] += 1
    assert model_digest(same[0]) != model_digest(same[1])


@pytest.mark.parametrize("kind", ["tensors", "TensorDataset", "Dataset", "arrays"])
def test_data_of_several_kinds_are_one_data_set(kind):
    class Pairs(torch.utils.data.Dataset):
        def __init__(self, x, y):
            self.x, self.y = x, y

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return self.x[index].numpy(), int(self.y[index])

    makers = {"tensors": lambda x, y: (x, y), "TensorDataset": TensorDataset, "Dataset": Pairs}
    make = makers.get(kind, lambda x, y: (x.numpy(), y.numpy()))
    found = make_dataset([make(*part) for part in parts()])
    assert data_keys(found) == data_keys(make_dataset(parts()))


@pytest.mark.parametrize(
    ("keys", "kind", "words"),
    [
        ({"model": nn.Linear(2, 2)}, hg.ConfigError, "holds no hard layer"),
        ({"model": network(), "component": "floor"}, hg.ConfigError, "component has no effect on a model given"),
        ({"model": network(), "component.step": 1.0}, hg.ConfigError, "component has no effect on a model given"),
        ({"model": network(), "data": "digits"}, hg.ConfigError, "the model cannot be built: mat1 and mat2"),
        ({"model": network(classes=4)}, hg.ConfigError, r"makes \(2, 4\) of a batch \(2, 2, 3\)"),
        ({"data": (1, 2, 3)}, DataError, r"part train should be a pair \(x, y\) of tensors"),
        ({"data": [(torch.zeros(2, 1), torch.tensor([-1, 1]))] * 3}, DataError, "label -1 at index 0"),
    ],
)
def test_objects_that_cannot_be_trained(keys, kind, words, tmp_path):
    with pytest.raises(kind, match=words):
        hg.train(**{"data": parts(), **keys})
    assert not list(tmp_path.rglob("status.json"))


def test_a_pair_that_is_not_applicable():
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 3), hg.HardLayer("sign", "ste"))
    with pytest.raises(hg.ConfigError, match="declares no reading 'rewrite'"):
        hg.train(model=net, data=parts(), strategy="rewrite", **SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "stacked"])
def test_a_sweep_over_objects_is_compared(launcher):
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU6(), nn.Linear(8, 3))
    hg.convert(net, "ste")
    keys = {"strategy": ["subgradient", "ste"], "seed": range(2), **SHORT}
    runs = hg.sweep(f"hydra/launcher={launcher}", model=net, data=parts(), **keys)
    assert (len(runs), runs.failed) == (4, [])
    assert isinstance(next(iter(runs[2].model[2].hard)).strategy, StraightThrough)
    assert hg.compare(runs).to_frame()["block"].unique().tolist() == ["given, given, given"]
