"""Processes of one machine, each with its own core: collectives, and what rests on them."""
