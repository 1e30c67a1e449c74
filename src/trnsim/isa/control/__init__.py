"""Registers of the sequencers, and what two cores of a logical core tell each other."""
