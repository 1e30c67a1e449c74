"""The NKI front end: what `import nki` gives where no Neuron SDK is installed."""

from trnsim.nki import isa, language
from trnsim.nki.kernel import Kernel, jit, simulate
from trnsim.nki.tensor import NkiTensor

__all__ = ["Kernel", "NkiTensor", "isa", "jit", "language", "simulate"]
