"""The small architectures, and the workloads of claims, by the names of their modules."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench" / "system")]
