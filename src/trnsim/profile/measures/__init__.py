"""Figures of a timeline: what moved, when, how busy; each by its definition."""
