"""The run folder and every file that a run writes into it."""
