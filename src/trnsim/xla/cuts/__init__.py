"""Cuts of a program into compiled ones, as torch_xla makes them.

Operators run when they are called, and are recorded (`recorder`). At a cut the program is what the
results need that the cut asks for (`programs`). The ledger counts its executions and compilations,
has the compiler's time of it, and says what changed against the nearest program (`causes`).
"""
