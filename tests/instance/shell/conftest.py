"""Tests of an instance's shell, which share how programs are run in one (`instance_shells`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # modules by their names
