"""What is read at parameters and hard layers while a model trains."""
