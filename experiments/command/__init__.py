"""The command line, and the task function that Hydra calls for each job."""
