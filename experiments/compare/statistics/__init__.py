"""From scores to differences, intervals and choices."""
