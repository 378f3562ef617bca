"""The points at which `surrogates.kinks` measures: kinks, ties and jumps of torch operations."""
