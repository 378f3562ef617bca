"""Names of sweep and job folders, made from the overrides on the command line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from omegaconf import ListConfig, OmegaConf

from experiments.config.settings import CONDUCT

LONGEST = 80  # characters of one folder's name
LONGEST_NUMBER = 8  # characters


def register_resolvers() -> None:
    """Makes `sweep_name` and `job_folder` available to conf/config.yaml."""
    # Cached: jobs take over the sweep's own value, as they do with Hydra's `now`.
    OmegaConf.register_new_resolver("sweep_name", sweep_name, use_cache=True, replace=True)
    OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)


def sweep_name(overrides: Iterable[str]) -> str:
    """The preset's name and a digest of the overrides: the same command uses the same folder."""
    texts = sorted(override for override in overrides if override_key(override) not in CONDUCT)
    presets = [_safe(text.partition("=")[2]) for text in texts if text.startswith("experiment=")]
    return "-".join([*(presets or ["sweep"]), _digest("\n".join(texts))])


def job_folder(overrides: Iterable[str]) -> str:
    """preset/component/strategy/rest, from a job's overrides; a value that is shortened gets a digest."""
    values = dict(override.lstrip("+").partition("=")[::2] for override in overrides)
    parts = [_safe(values.pop(group)) for group in ("experiment", "component", "strategy") if group in values]
    rest = ",".join(f"{key}={_short(value)}" for key, value in values.items() if key not in CONDUCT)
    return "/".join([*parts, _safe(rest)] if rest else parts or ["run"])


def override_key(override: str) -> str:
    """The key that an override sets."""
    return override.lstrip("+").partition("=")[0]


def typed_overrides(overrides: ListConfig) -> list[str]:
    """The overrides in `hydra.overrides.task`, where values may be references that cannot be resolved."""
    found: Any = OmegaConf.to_container(overrides, resolve=False)
    return list(map(str, found))


def typed_keys(overrides: ListConfig) -> set[str]:
    """The keys that those set."""
    return set(map(override_key, typed_overrides(overrides)))


def _short(value: str) -> str:
    """A long float shortened, with a digest because another value may look the same."""
    try:
        short = f"{float(value):.6g}"
    except ValueError:
        return value
    return value if len(value) <= LONGEST_NUMBER else f"{short}-{_digest(value)[:4]}"


def _safe(name: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9._=,+-]", "_", name).strip(".")
    if safe != name or len(safe) > LONGEST:
        return f"{safe[:LONGEST]}-{_digest(name)[:6]}"
    return safe


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
