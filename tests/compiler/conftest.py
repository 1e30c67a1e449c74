"""The folder's helpers by their names: graphs.py and chance.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
