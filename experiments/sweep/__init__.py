"""A sweep: its list of jobs, their launch, progress and report."""
