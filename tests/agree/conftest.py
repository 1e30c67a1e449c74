"""The small architectures, by the name of their module."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
