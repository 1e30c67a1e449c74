# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.xla.by_name.distributed.fsdp.state_dict_utils import *
from typing import Any

def __getattr__(name: str) -> Any: ...
