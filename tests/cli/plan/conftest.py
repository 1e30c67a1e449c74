"""Modules that tests of pages share."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1] / "profile" / "report_page"):
    sys.path.append(str(folder))
