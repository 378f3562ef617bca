"""Components: what turns a model's pre-activations into activations through a hard op, one a file."""
