"""The check of a number of samples."""


def require_samples(samples: int) -> None:
    """Raises ValueError unless it is a whole number from 1."""
    if type(samples) is not int or samples < 1:
        raise ValueError(f"samples must be a whole number of at least 1, got {samples}")
