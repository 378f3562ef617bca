"""Measures a run's gradient while it trains, on a copy of its model; the run itself is unchanged."""
