"""A graph as one program."""
