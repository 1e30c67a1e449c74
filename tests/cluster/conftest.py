"""Modules beside the tests of this room."""

import sys
from pathlib import Path

for name in ("kubernetes", "real"):
    sys.path.append(str(Path(__file__).parent / name))
