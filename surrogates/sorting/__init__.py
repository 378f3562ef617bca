"""Mathematics of orders: relaxed permutations, sorting networks, order statistics."""
