"""Settings whose exact gradient is known: how wrong is a strategy's? `python -m experiments.oracles`."""
