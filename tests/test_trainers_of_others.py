"""The callbacks of Lightning and the Hugging Face Trainer train and measure as `Monitor` in a plain loop."""

import importlib
import json
import os
import subprocess
import sys

import pytest
import torch
from doc_blocks import blocks
from torch import nn

import hardgrad as hg
from runs import ROOT

STEPS, BATCH = 8, 4
X = torch.randn(STEPS * BATCH, 3, generator=torch.Generator().manual_seed(0))
Y = X.prod(1, keepdim=True)


def net():
    """A noisy layer, one with a schedule, one with a learned step."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, 8),
        hg.HardLayer(hg.ops.Quantize(bits=3, low=-1.0, high=1.0), "rewrite"),
        nn.Linear(8, 8),
        hg.layers.QuantizedActivation("ste", range="learned_step", low=-1.0),
        hg.HardLayer("sign", hg.strategies.Smooth(temperature=1.0, schedule="linear", final_temperature=0.1)),
        nn.Linear(8, 1),
    )


def batches():
    return list(zip(X.split(BATCH), Y.split(BATCH), strict=True))


def plain_loop(prefix="", accumulate=1):
    """The weights after a plain loop, and the measurements by step."""
    model, found = nn.Module(), {}
    model.net = net()
    steps = STEPS // accumulate
    optimizer, watch = (
        torch.optim.SGD(model.parameters(), lr=0.1),
        hg.Monitor(model.net, steps, seed=3, log_every=2, probe=X),
    )
    for step in range(steps):
        optimizer.zero_grad()
        for x, y in batches()[step * accumulate : (step + 1) * accumulate]:
            (nn.functional.mse_loss(model.net(x), y) / accumulate).backward()
        found[step + 1] = watch.step()
        optimizer.step()
    return model.net, {
        step: {tag.replace("/", f"/{prefix}", 1) if "total" not in tag else tag: value for tag, value in values.items()}
        for step, values in found.items()
        if values
    }


def assert_same(model, found, expected):
    weights, values = expected
    assert found.keys() == values.keys()
    for step, own in values.items():
        assert {tag: found[step][tag] for tag in own} == pytest.approx(own, rel=1e-5, abs=1e-7)
    for name, tensor in weights.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor)


@pytest.mark.parametrize("extra", ["lightning", "transformers"])
def test_without_the_package_the_extra_is_named(extra, monkeypatch):
    monkeypatch.setitem(sys.modules, extra, None)
    monkeypatch.setitem(sys.modules, f"{extra}.pytorch", None)
    monkeypatch.setitem(sys.modules, "accelerate.utils", None)
    monkeypatch.delitem(sys.modules, f"hardgrad.{extra}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'hardgrad\[{extra}\]' brings it"):
        importlib.import_module(f"hardgrad.{extra}")


@pytest.fixture
def lightning():
    return pytest.importorskip("lightning.pytorch", reason="extra lightning")


@pytest.fixture
def lightning_run(lightning, tmp_path):
    from lightning.pytorch.loggers import Logger
    from torch.utils.data import DataLoader, TensorDataset

    from hardgrad.lightning import MonitorCallback

    class Memory(Logger):
        name, version = "memory", 0

        def __init__(self):
            super().__init__()
            self.rows = {}

        def log_metrics(self, metrics, step=None):
            self.rows.setdefault(step + 1, {}).update({k: v for k, v in metrics.items() if k != "epoch"})

        def log_hyperparams(self, *args, **kwargs):
            pass

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, index):
            return nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def validation_step(self, batch, index):
            self.net(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def run(task=None, ckpt=None, callbacks=(), **options):
        task, logger, callback = task or Task(), Memory(), MonitorCallback(seed=3, probe=X)
        trainer = lightning.Trainer(
            accelerator="cpu", devices=1, logger=logger, callbacks=[callback, *callbacks], log_every_n_steps=2,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
            **{"max_epochs": 1, "val_check_interval": 3, **options},
        )  # fmt: skip
        loader = DataLoader(TensorDataset(X, Y), batch_size=BATCH)
        trainer.fit(task, loader, loader, ckpt_path=ckpt)
        return task, {step: row for step, row in logger.rows.items() if row}, callback, trainer

    run.Task = Task
    return run


@pytest.mark.nightly
def test_lightning_trains_and_measures_as_a_plain_loop(lightning_run):
    """With evaluations between the steps."""
    task, found, callback, _ = lightning_run()
    assert_same(task.net, found, plain_loop("net."))
    assert callback.values["grad_norm/total"] == found[STEPS]["grad_norm/total"]
    assert not any(module._forward_hooks for module in task.modules())


@pytest.mark.nightly
def test_lightning_accumulates_gradients_and_clips_after_the_measurement(lightning_run):
    task, found, *_ = lightning_run(accumulate_grad_batches=2, val_check_interval=None)
    assert_same(task.net, found, plain_loop("net.", accumulate=2))
    _, clipped, *_ = lightning_run(gradient_clip_val=1e-3)
    assert clipped[1]["grad_norm/total"] > 0.1


@pytest.mark.nightly
def test_lightning_divides_by_the_loss_scale(lightning, lightning_run):
    from lightning.pytorch.plugins import MixedPrecision

    class Scaled(MixedPrecision):
        def autocast_context_manager(self):  # half precision on the CPU is not what is tested
            return torch.autocast("cpu", enabled=False)

    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    task, found, *_ = lightning_run(plugins=[Scaled("16-mixed", "cpu", scaler)])
    assert_same(task.net, found, plain_loop("net."))


@pytest.mark.nightly
def test_lightning_resumes_at_the_step_reached(lightning, lightning_run, tmp_path):
    """From its own checkpoint after the first epoch; the first measurement has no flip rate."""
    keep = lightning.callbacks.ModelCheckpoint(tmp_path, save_on_train_epoch_end=True, save_top_k=-1)
    whole, expected, *_ = lightning_run(callbacks=[keep], max_epochs=2)
    resumed, found, *_ = lightning_run(max_epochs=2, ckpt=tmp_path / f"epoch=0-step={STEPS}.ckpt")
    assert list(found) == [step for step in expected if step > STEPS]
    for step, row in found.items():
        assert row == pytest.approx({tag: expected[step][tag] for tag in row})
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor)


TWO_PROCESSES = """
import json, sys, torch, lightning
import hardgrad as hg
from hardgrad.lightning import MonitorCallback
from torch.utils.data import DataLoader, TensorDataset

class Task(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), hg.HardLayer("sign", "gumbel"), torch.nn.Linear(4, 1))
        self.keys = []

    def training_step(self, batch, index):
        self.keys.append(self.net[1].noise_key)
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

if __name__ == "__main__":
    task, watch = Task(), MonitorCallback(seed=3)
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=3, callbacks=[watch], **quiet)
    trainer.fit(task, DataLoader(TensorDataset(torch.randn(16, 3), torch.randn(16, 1)), batch_size=2))
    with open(f"{sys.argv[1]}/{trainer.global_rank}.json", "w") as file:
        json.dump([task.keys, watch.values["grad_norm/total"]], file)
"""


@pytest.mark.nightly
def test_two_processes_of_lightning_draw_their_own_noise_and_share_gradients(lightning, tmp_path):
    script = tmp_path / "two.py"
    script.write_text(TWO_PROCESSES)
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    (keys, norm), (other_keys, other_norm) = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert keys == [[3, step, 0] for step in (1, 2, 3)]
    assert other_keys == [[3, step, 0, 1] for step in (1, 2, 3)]
    assert norm == other_norm


@pytest.mark.nightly
def test_lightning_needs_one_optimizer_and_a_known_end(lightning, lightning_run):
    class Two(lightning_run.Task):
        automatic_optimization = False

        def configure_optimizers(self):
            return [torch.optim.SGD(self.net[i].parameters(), lr=0.1) for i in (0, 2)]

    with pytest.raises(ValueError, match="a model with one optimizer, got 2"):
        lightning_run(Two())
    with pytest.raises(ValueError, match="give Trainer max_steps"):
        lightning_run(max_epochs=-1)


@pytest.fixture
def hugging_face_trainer(tmp_path):
    transformers = pytest.importorskip("transformers", reason="extra transformers")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x, labels=None):
            y = self.net(x)
            return {"loss": nn.functional.mse_loss(y, labels) if labels is not None else y.mean(), "logits": y}

    def make(**options):
        rows = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
        arguments = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=BATCH, num_train_epochs=1, logging_steps=2,
            train_sampling_strategy="sequential", max_grad_norm=0, use_cpu=True, report_to="none", disable_tqdm=True,
            save_strategy="steps", eval_strategy="steps", eval_steps=3, **{"save_steps": 100, **options},
        )  # fmt: skip
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        return transformers.Trainer(
            model, arguments, train_dataset=rows, eval_dataset=rows, optimizers=(optimizer, constant)
        )

    return make


@pytest.fixture
def hugging_face_run(hugging_face_trainer):
    def run(resume=None, **options):
        from hardgrad.transformers import MonitorCallback

        trainer = hugging_face_trainer(**options)
        trainer.add_callback(MonitorCallback(trainer, seed=3, probe={"x": X}))
        trainer.train(resume_from_checkpoint=resume)
        found = {row["step"]: row for row in trainer.state.log_history if "grad_norm/total" in row}
        return trainer, trainer.model, found

    return run


@pytest.mark.nightly
@pytest.mark.parametrize("accumulate", [1, 2])
def test_hugging_face_trains_and_measures_as_a_plain_loop(hugging_face_run, accumulate):
    """With evaluations between the steps; its own loss is logged as ever."""
    trainer, model, found = hugging_face_run(gradient_accumulation_steps=accumulate)
    assert_same(model.net, found, plain_loop("net.", accumulate=accumulate))
    losses = [row["step"] for row in trainer.state.log_history if "loss" in row]
    assert losses == list(range(2, STEPS // accumulate + 1, 2))
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.nightly
def test_hugging_face_resumes_at_the_step_reached(hugging_face_run, tmp_path):
    *_, expected = hugging_face_run(save_steps=4)
    *_, found = hugging_face_run(resume=str(tmp_path / "checkpoint-4"))
    for step in (6, 8):
        assert found[step]["op/net.4/temperature"] == expected[step]["op/net.4/temperature"]
        assert found[step]["grad_norm/total"] == pytest.approx(expected[step]["grad_norm/total"], rel=1e-5)


def run_blocks_that_name(word, namespace):
    """Runs the blocks of the page that need another package; the namespace after it."""
    found = [
        block for block in blocks(ROOT / "docs" / "own_trainer.md") if block.language == "py" and word in block.text
    ]
    assert found
    for block in found:
        exec(compile(block.text, block.where, "exec"), namespace)
    return namespace


@pytest.mark.nightly
def test_the_pages_lines_for_lightning_run(lightning, lightning_run, tmp_path, monkeypatch):
    from torch.utils.data import DataLoader, TensorDataset

    monkeypatch.chdir(tmp_path)
    loader = DataLoader(TensorDataset(X, Y), batch_size=BATCH)
    names = {"lightning": lightning, "task": lightning_run.Task(), "loader": loader, "x": X}
    trainer = run_blocks_that_name("hardgrad.lightning", names)["trainer"]
    assert trainer.callbacks[0].values["op/net.4/temperature"] == pytest.approx(0.1)


@pytest.mark.nightly
def test_the_pages_lines_for_hugging_face_run(hugging_face_trainer):
    trainer = hugging_face_trainer()
    run_blocks_that_name("hardgrad.transformers", {"trainer": trainer, "batch": {"x": X}})
    found = [row for row in trainer.state.log_history if "op/net.4/temperature" in row]
    assert (found[-1]["step"], found[-1]["op/net.4/temperature"]) == (STEPS, pytest.approx(0.1))
