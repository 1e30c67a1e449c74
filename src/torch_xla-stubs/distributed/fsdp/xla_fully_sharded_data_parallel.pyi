# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.xla.by_name.distributed.fsdp.xla_fully_sharded_data_parallel import *
from typing import Any

def __getattr__(name: str) -> Any: ...
