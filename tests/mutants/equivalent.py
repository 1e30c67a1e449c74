"""Faults that no test can notice, each with the argument: (file, statement, before, after)."""

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (
        "hazards/races.py",
        "return np.asarray(is_among)",
        "np.asarray(is_among)",
        "is_among",
    ): "is_among is an array already; asarray is for checkers of types",
}
