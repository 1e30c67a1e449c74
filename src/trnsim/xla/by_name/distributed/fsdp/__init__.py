"""`torch_xla.distributed.fsdp`: parameters, gradients and states are shared over the ranks.

Source: torch_xla 2.9.0, distributed/fsdp.
"""

from trnsim.xla.absent_names import absence_getter
from trnsim.xla.by_name.distributed.fsdp.state_dict_utils import (
    consolidate_sharded_model_checkpoints,
    consolidate_sharded_state_dicts,
)
from trnsim.xla.by_name.distributed.fsdp.utils import checkpoint_module
from trnsim.xla.by_name.distributed.fsdp.xla_fully_sharded_data_parallel import (
    XlaFullyShardedDataParallel,
)

__all__ = [
    "XlaFullyShardedDataParallel",
    "checkpoint_module",
    "consolidate_sharded_model_checkpoints",
    "consolidate_sharded_state_dicts",
]

__getattr__ = absence_getter("torch_xla.distributed.fsdp", __name__)
