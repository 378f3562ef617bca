"""Searches for the best values of some keys: optuna proposes runs, and prunes the worse ones."""
