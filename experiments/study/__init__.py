"""A study: one question, from its registered file through choosing and reporting to a report."""
