"""The Lightning + Hydra + TensorBoard script that a user would otherwise write: same model, data and logging as ours.

Needs lightning 2.6 in an environment of its own. Usage: python train.py -m seed=0,1,2,3
"""

import hydra
import lightning as L
import torch
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import grad_norm
from omegaconf import DictConfig
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def quantize(x: torch.Tensor) -> torch.Tensor:
    x = x.clamp(0, 1) * 15
    return (x + (x.round() - x).detach()) / 15


class Classifier(L.LightningModule):
    """Two quantized hidden layers."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.a, self.b, self.c = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(quantize(self.b(quantize(self.a(x)))))

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("loss/train", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("loss/val", self.loss(batch))

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.log_dict(grad_norm(self, 2))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    train, val = TensorDataset(x[:1437], y[:1437]), TensorDataset(x[1437:], y[1437:])
    trainer = L.Trainer(
        max_steps=cfg.steps,
        max_epochs=10**6,
        accelerator="cpu",
        devices=1,
        logger=TensorBoardLogger(HydraConfig.get().runtime.output_dir),
        log_every_n_steps=10,
        check_val_every_n_epoch=5,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(cfg.lr), DataLoader(train, 64, shuffle=True, drop_last=True), DataLoader(val, 360))


if __name__ == "__main__":
    main()
