"""Tests of the tuner find the kernels beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
