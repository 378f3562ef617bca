"""The run folder and every file that is written into it."""
