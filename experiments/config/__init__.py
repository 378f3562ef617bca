"""From a composed configuration to checked values, keys and names of folders."""
