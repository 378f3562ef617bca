"""The mathematics of order that several ops share: relaxed permutations, sorting networks, sorted values."""
