"""Cuts and standardises images: the same parts and numbers on every machine and for every seed."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from experiments.data.dataset import Dataset, Part

Images = tuple[Tensor, Tensor]  # pixels (N, C, *), uint8, and labels (N,), int64


def cut(images: Images, *sizes: int) -> list[Images]:
    """Cuts N samples into disjoint random parts of the given sizes, which must add up to N.

    numpy's legacy RandomState(0), whose stream is frozen (NEP 19), shuffles them. Unshuffled, neighbours may come from
    one writer, and in the digits file every tenth sample tends to have the same label.
    """
    x, y = images
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(x)).astype(np.int64))
    return [(x[index], y[index]) for index in torch.split(order, list(sizes))]


def with_validation(name: str, classes: int, train: Images, test: Images) -> Dataset:
    """Makes a standardised data set whose validation part is a tenth of the official training part."""
    held_out = len(train[0]) // 10
    rest, val = cut(train, len(train[0]) - held_out, held_out)
    return standardise(name, classes, rest, val, test)


def standardise(name: str, classes: int, train: Images, val: Images, test: Images) -> Dataset:
    """Makes a data set of (pixel - mean) / std, with each channel's mean and std over the training part.

    A channel that is constant in training is only centred.
    """
    moments = [_moments(channel) for channel in train[0].unbind(1)]
    shape = (-1, *(1 for _ in train[0].shape[2:]))
    mean, std = (torch.tensor(column).view(shape) for column in zip(*moments, strict=True))
    parts = (Part(x.float().sub_(mean).div_(std), y.long()) for x, y in (train, val, test))
    return Dataset(name, classes, *parts)


def _moments(pixels: Tensor) -> tuple[float, float]:
    """Computes mean and population std from integer sums, because floating sums depend on the number of threads."""
    counts = torch.bincount(pixels.flatten(), minlength=256)
    values = torch.arange(256)
    n, total, squares = pixels.numel(), int(counts @ values), int(counts @ values.square())
    variance = (n * squares - total**2) / n**2
    return total / n, math.sqrt(variance) or 1.0
