"""Files of sites, by the name of their module."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "site"))
