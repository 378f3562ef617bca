"""Models: small nets that take any component, one a file."""
