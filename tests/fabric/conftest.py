"""Tests of the fabric: plans are simulated by events (`simulation`), chunks followed (`plans`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # modules by their names
