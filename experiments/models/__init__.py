"""Models: small nets in which any component sits, one a file."""
