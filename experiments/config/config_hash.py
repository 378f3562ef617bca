"""What a configuration is known by. Imports no torch: the comparison reads many configurations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from experiments.config.settings import CONDUCT

# Keys that do not change the numbers of a run, and so are not in its hash.
NOT_HASHED = (*CONDUCT, "data.root", "data.download")


def config_hash(plain: dict[str, Any], without: Iterable[str] = NOT_HASHED) -> str:
    """A digest of a resolved configuration, excluding keys that do not affect its results."""
    kept = json.loads(json.dumps(plain))
    for path in without:
        *parents, key = path.split(".")
        node = kept
        for parent in parents:
            node = node.get(parent, {})
        node.pop(key, None)
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
