"""Names and words that a user types or reads: members by name, the words of a field, tables for notebooks."""
