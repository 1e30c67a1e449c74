"""Graphs as instructions: what each operation issues, and where its result lies."""
