# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.xla.neuronx.by_name.experimental.profiler.v2_x import *
from typing import Any

def __getattr__(name: str) -> Any: ...
