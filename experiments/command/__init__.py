"""The command line: Hydra's, and what Hydra calls for each job."""
