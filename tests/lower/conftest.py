"""Helpers by their names: graphs.py and chance.py here, the examples of operations elsewhere."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / part) for part in ("compiler", "lower", "graph")]
