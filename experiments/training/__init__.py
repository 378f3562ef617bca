"""One run: its model, training loop, scores and files."""
