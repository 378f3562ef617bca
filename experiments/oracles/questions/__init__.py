"""Questions that exact gradients answer, one a file: `answer()` measures, and says what was expected of it."""
