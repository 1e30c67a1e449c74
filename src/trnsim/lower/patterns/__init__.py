"""Patterns that emission recognises: nodes issued together, and contractions in parts."""
