"""Patterns that emission knows: what it issues together, and contractions in parts."""
