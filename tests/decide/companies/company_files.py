"""The made-up companies of this folder: what they run, and the decision that is expected."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trnsim.decide.inventory import read

HERE = Path(__file__).parent
NAMES = sorted(path.name for path in HERE.iterdir() if (path / "expected.yaml").is_file())


@dataclass(frozen=True)
class Company:
    name: str
    inventory: Path
    expected: dict[str, Any]

    @property
    def workload(self):
        (found,) = read(self.inventory)
        return found


def company(name):
    """The company whose folder has this name."""
    (inventory,) = (HERE / name).glob("inventory.*")
    expected = yaml.safe_load((HERE / name / "expected.yaml").read_text(encoding="utf-8"))
    return Company(name, inventory, expected)


def companies():
    """All of them."""
    return [company(name) for name in NAMES]
