"""Random choices: categorical draws, perturbed inputs, the score function."""
