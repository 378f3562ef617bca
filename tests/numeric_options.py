"""Every numeric option of the configuration, beside options under which it has an effect, at extreme values."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml

from experiments.config.choices import SUPPLIED
from experiments.config.keys import options
from experiments.config.settings import GROUPS, Settings
from experiments.training.user_errors import USER_ERRORS
from runs import CONF, train

VALUES = ("0", "-1", "1e-320", "1e-30", "1e30", "1e39", "1e308", "1" + "0" * 20, "nan", "inf")
OFFLINE = ("digits", "fake", "mnist1d")
SHORT = {"max_steps": "3", "eval_every": "3", "log_every": "1", "model.width": "16"}
BESIDE = {  # what an option needs to have an effect
    "component.group_size": ("component.per=group",),
    "strategy.width": ("strategy.carrier=clipped",),
    "strategy.power": ("strategy.carrier=power",),
    "strategy.gap": ("strategy.clock=gap",),
    "strategy.final_temperature": ("strategy.schedule=linear",),
}


@dataclass(frozen=True)
class Option:
    """A key, and the options beside it."""

    key: str
    beside: tuple[str, ...] = ()


def numeric_options() -> Iterator[Option]:
    """All of them: the root's keys, then those of every option of every group."""
    for field in fields(Settings):
        if _is_number(get_type_hints(Settings)[field.name]):
            yield Option(field.name)
    for group in GROUPS:
        for name in options(CONF, group):
            if group != "data" or name in OFFLINE:
                for key in _numeric_keys(group, name):
                    yield from _beside(group, name, f"{group}.{key}")


def answer(option: Option, value: str, folder: Path) -> str:
    """refused, trained or diverged; any other error is raised, or fails."""
    short = [f"{key}={own}" for key, own in SHORT.items() if key != option.key]
    try:
        outcome = train(folder, *option.beside, *short, f"{option.key}={value}")
    except USER_ERRORS as error:
        words = str(error)
    else:
        return _ending(option, outcome)
    assert option.key.rpartition(".")[2] in words, f"{option}: {words}"
    assert not folder.exists()
    return "refused"


def _ending(option: Option, outcome: Any) -> str:
    if outcome.status == "DONE":
        return "trained"
    assert "training diverged by step" in outcome.reason, f"{option}: {outcome.reason}"
    return "diverged"


def _beside(group: str, name: str, key: str) -> Iterator[Option]:
    chosen = (f"{group}={name}", *BESIDE.get(key, ()))
    if group == "component":
        pooling = ("model=cnn",) if name == "hard_max_pool" else ()
        for strategy in ("ste", "smooth"):
            yield Option(key, (*chosen, *pooling, f"strategy={strategy}"))
    elif group == "strategy":
        categorical = name in ("gumbel_rao", "zgr", "reinmax")
        yield Option(key, (*chosen, f"component={'hard_gate' if categorical else 'quantized_activation'}"))
    else:
        yield Option(key, chosen)


def _numeric_keys(group: str, name: str) -> list[str]:
    module, _, target = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())["_target_"].rpartition(".")
    cls = getattr(import_module(module), target)
    hints = get_type_hints(cls if group in ("strategy", "data", "optimizer") else cls.__init__)
    known = set(inspect.signature(cls).parameters) - set(SUPPLIED.get(group, ()))
    return sorted(key for key in known if _is_number(hints[key]))


def _is_number(annotation: Any) -> bool:
    return not {int, float}.isdisjoint((annotation, *get_args(annotation)))
