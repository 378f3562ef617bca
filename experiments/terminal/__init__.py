"""What a run prints: progress, tables, and output streams whose failures do not stop it."""
