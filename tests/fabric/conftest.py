"""Tests of the fabric, which simulate plans event by event (`simulation`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # modules by their names
