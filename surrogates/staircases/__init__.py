"""The mathematics of staircases: exact expectations under a kernel, sums over steps."""
