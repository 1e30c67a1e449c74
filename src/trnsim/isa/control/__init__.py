"""Registers of the sequencers, and synchronization between the cores of a logical core."""
