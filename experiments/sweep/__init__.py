"""A sweep: its jobs listed before anything runs, then launched, watched and reported."""
