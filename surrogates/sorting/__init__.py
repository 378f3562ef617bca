"""The mathematics of order shared by several ops: relaxed permutations, sorting networks, sorted values."""
