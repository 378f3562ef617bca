"""Settings whose exact gradient is known, and the strategies scored against it: `python -m experiments.oracles`."""
