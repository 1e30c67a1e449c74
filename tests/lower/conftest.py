"""Helpers by their names: made_graphs.py here, the edges of element types beside the graph."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / part) for part in ("lower", "graph")]
