"""Emission: a graph as the instructions of one program, and the places of its values."""
