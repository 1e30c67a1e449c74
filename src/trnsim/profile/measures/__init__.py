"""Figures of a timeline: bytes moved, rates, busy times; each by its definition."""
