"""Families: how the configuration of an architecture becomes its sizes."""
