"""Processes of one machine, each with its own core: collectives, and modules that use them."""
