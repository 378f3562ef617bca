"""How much of the variance of validation accuracy each varied key explains, over the trials of a study."""
