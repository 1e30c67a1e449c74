import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # modules of cases by their names
