"""The files of the fuzzer import each other, as `python tests/fuzz/main.py` does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
