"""Rewrites of a graph before its instructions are issued, most of them by a table of patterns.

A pattern has the operations that it matches, a condition, and their replacement (`table`; the
language is `trnsim.graph.patterns`). `preparation` applies them; `casts` follows AWS's flags.
"""
