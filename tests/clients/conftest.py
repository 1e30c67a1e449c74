"""The files of this folder that are no tests are modules by their names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
