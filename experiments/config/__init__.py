"""From a composed configuration to checked values, keys and names of folders."""

VERSION_BASE = "1.3"  # the release of Hydra whose defaults apply
