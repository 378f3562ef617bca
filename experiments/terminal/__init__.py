"""What a person sees in a terminal: progress, tables, output that outlives its reader."""
