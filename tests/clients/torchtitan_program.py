"""`python -m torchtitan.train`, with the one name of a PyTorch after 2.13 that it calls.

torchtitan 0.3.0 asks for PyTorch's nightly build. `torch.distributed.set_timeout`, which it calls
after the first step, is in 2.13 a private function.
"""

import runpy

import torch.distributed as dist

if not hasattr(dist, "set_timeout"):
    dist.set_timeout = dist.distributed_c10d._set_pg_timeout
runpy.run_module("torchtitan.train", run_name="__main__", alter_sys=True)
