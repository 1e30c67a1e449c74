"""Faults that no test can notice, each with the argument: (file, statement, before, after)."""

EQUIVALENT = {
    ("hazards/races.py", "_FEW = 4", "4", "5"): (
        "from so many ticks on they are looked up by numpy, which gives the same ones"
    ),
}
