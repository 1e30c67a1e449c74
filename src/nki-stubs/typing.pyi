# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.nki.tensor import NkiTensor as NkiTensor
from typing import Any

mutable_tensor = Any
scalar = Any
tensor = Any
