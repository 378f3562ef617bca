"""One run: its model, its training loop, its scores, and the files that it leaves."""
