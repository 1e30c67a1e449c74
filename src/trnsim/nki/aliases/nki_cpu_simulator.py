"""`nki_cpu_simulator`: the name under which nki-library's harness looks for AWS's simulator."""

from trnsim import nki

SUBMODULES = {"nki": "trnsim.nki"}
"""Names below this package, and the packages that they stand for."""

__all__ = ["SUBMODULES", "nki"]
