# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.xla.by_name.core.dynamo_bridge import *
from typing import Any

def __getattr__(name: str) -> Any: ...
