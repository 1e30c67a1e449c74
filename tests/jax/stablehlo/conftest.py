"""Programs of JAX, imported from StableHLO and compared with XLA's CPU.

They run in a process of their own (see the Makefile): JAX starts threads, beside which other tests
may not fork.
"""

import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=12"  # before JAX is imported
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # the oracle compiles for longer than it runs
sys.path.insert(0, str(Path(__file__).parent))  # modules by their names
