"""What a user types and sees: members by name, the words that a field takes, tables for a notebook."""
