"""Attention and its gradient, which never leave the chip."""
