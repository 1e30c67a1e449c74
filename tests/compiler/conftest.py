"""Helpers by their names: graphs_by_chance.py here, made graphs and examples beside `lower`."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / part) for part in ("compiler", "lower", "graph")]
