"""Faults that no test can notice, each with the argument: (file, statement, before, after)."""

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (
        "isa/dma/dma_compute.py",
        "self._check_addressing(tile)",
        "self._check_addressing(tile)",
        "pass",
    ): "verify, which comes first, refuses what this check of resolved refuses",
    (
        "hazards/races.py",
        "return np.asarray(is_among)",
        "np.asarray(is_among)",
        "is_among",
    ): "is_among is an array already; asarray is for checkers of types",
}
