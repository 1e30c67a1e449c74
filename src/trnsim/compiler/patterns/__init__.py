"""What is done to a graph before its instructions are issued, most of it by a table of patterns.

A pattern says what stands before, on which condition, and what takes its place (`table`; the
language is `trnsim.graph.patterns`). `preparation` has their order; `casts` follows AWS's flags.
"""
