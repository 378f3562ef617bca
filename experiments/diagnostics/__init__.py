"""What a run's gradient is worth, measured while it trains, on a copy of its model; nothing of the run changes."""
