"""Cuts of a program into compiled programs, as torch_xla makes them.

Operators run when they are called, and are recorded (`recorder`). The program of a cut has the
recorded operators that its results need (`programs`). The ledger counts executions and
compilations, and keeps the compiler's times and the difference of each new program (`causes`).
"""
