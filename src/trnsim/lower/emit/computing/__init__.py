"""Elementwise operations, reductions, products and joins."""
