"""The NKI front end, which `import nki` loads if no Neuron SDK is installed."""

from typing import Any

from trnsim.absence import Absence, AbsentNames
from trnsim.nki import compiler, isa, language
from trnsim.nki.dialect import running_version
from trnsim.nki.entry import cpu_simulate, simulate
from trnsim.nki.kernel import Kernel, jit
from trnsim.nki.tensor import NkiTensor

__all__ = ["Kernel", "NkiTensor", "compiler", "cpu_simulate", "isa", "jit", "language", "simulate"]

_REPLACEMENTS = {
    "simulate_kernel": "nki.simulate(kernel)(...) gives its values",
    "benchmark": "trnsim.run(kernel, ...).total_time_s estimates its time",
    "profile": "trnsim.run(kernel, ...).report('page.html') shows its timeline",
    "baremetal": "call the kernel: kernel(...)",
    "trace": "trnsim.run(kernel, ...).program holds its instructions",
}
"""Names that NKI 0.2 removed, and their replacements here."""


def _explain(name: str) -> Absence | None:
    if name not in _REPLACEMENTS:
        return None
    return Absence(
        f"nki.{name} belongs to NKI 0.1, which is not emulated yet",
        fix=_REPLACEMENTS[name],
        source="release notes of NKI 0.2, nki/migration/index.rst",
    )


_ABSENT = AbsentNames(__name__, "nki", _explain)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return f"{running_version().name}.0"
    return _ABSENT.serve(name)
