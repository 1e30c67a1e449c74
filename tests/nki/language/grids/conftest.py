"""The tests of grids import the cases that they share, as `python grid_cases.py` does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
