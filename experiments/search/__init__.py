"""A search for the best values of some keys: many runs, proposed and pruned by optuna."""
