"""Writes and reads `test_outcomes.json`: which test samples the last and the best model of a run got right."""

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.tracking.run_errors import reason
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import check_sealed, read_status
from experiments.tracking.strict_json import DamagedFile, read_json, write_json

Bits = NDArray[np.bool_]
Which = Literal["last", "best"]


class Owner(NamedTuple):
    """What the outcomes belong to: the hash of the run's configuration, and the SHA-256 of the test part."""

    config_hash: str
    test_sha256: str


def write_test_outcomes(run: RunPaths, owner: Owner, right: Mapping[Which, Bits]) -> None:
    """Writes whether each of N test samples was classified right, bool (N,) by model; all have the same N."""
    (samples,) = {len(bits) for bits in right.values()}
    packed = {which: base64.b64encode(np.packbits(bits).tobytes()).decode() for which, bits in right.items()}
    write_json(run.test_outcomes, {**owner._asdict(), "samples": samples, "right": packed})


def read_test_outcomes(folder: str | Path, which: Which) -> Bits | None:
    """Reads whether the last or the best model of a run classified each of N test samples right, bool (N,).

    None if the run wrote no outcomes: it is not over, it failed, or an earlier version made it.
    Raises DamagedFile, with the file and its fault, if a file is missing, damaged, unreadable or another run's.
    """
    run = RunPaths(folder)
    status = read_status(run.path)
    if status is None:
        return None
    try:
        check_sealed(status, run.test_outcomes)
        if not os.path.lexists(run.test_outcomes):
            return None
        content, environment = read_json(run.test_outcomes), read_json(run.env)
    except OSError as error:
        raise DamagedFile(Path(error.filename), f"cannot be read ({reason(error)})") from error
    _refuse_foreign(run, content, Owner(status["config_hash"], _test_hash(run, environment)))
    return _unpack(run, content, which)


def _test_hash(run: RunPaths, environment: Any) -> str:
    try:
        return str(environment["data_hashes"]["test"])
    except (KeyError, TypeError):
        raise DamagedFile(run.env, "lacks the hash of the test part") from None


def _refuse_foreign(run: RunPaths, content: Any, owner: Owner) -> None:
    if not isinstance(content, dict):
        raise DamagedFile(run.test_outcomes, "does not hold the test outcomes of a run")
    for key, own in owner._asdict().items():
        if content.get(key) != own:
            fault = f"belongs to another run: its {key} is {content.get(key)}, this run's is {own}"
            raise DamagedFile(run.test_outcomes, fault)


def _unpack(run: RunPaths, content: dict[str, Any], which: Which) -> Bits:
    try:
        samples, packed = content["samples"], base64.b64decode(content["right"][which], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise DamagedFile(run.test_outcomes, f"lacks the outcomes of the {which} model ({error})") from None
    if type(samples) is not int or samples < 1 or len(packed) != -(-samples // 8):
        raise DamagedFile(run.test_outcomes, f"has {len(packed)} bytes of outcomes for {samples} samples")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=samples).astype(bool)
