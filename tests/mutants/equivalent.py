"""Faults that no test can notice, each with the argument: (file, statement, before, after)."""

EQUIVALENT: dict[tuple[str, str, str, str], str] = {}
