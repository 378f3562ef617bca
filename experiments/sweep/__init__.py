"""A sweep: its jobs are listed, launched, watched and reported."""
