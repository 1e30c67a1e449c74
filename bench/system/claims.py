"""How much of ten workloads instances do, by the planner: ``rates.json`` of the claims.

Run after a change of the planner's constants or of the catalogue; a minute.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from workload_rates import WORKLOADS, Workload, done, instances_of

from trnsim.errors import OutOfMemory
from trnsim.files import write

HERE = Path(__file__).parent
CONFIGS = HERE / "configs"
RATES = HERE.parent.parent / "src/trnsim/system/claims/rates.json"


def rates(workload: Workload) -> dict[str, object]:
    """By instance, what `done` gives; nothing where the model has no room."""
    found: dict[str, object] = {}
    for instance in instances_of(workload):
        try:
            found[instance] = asdict(done(workload, CONFIGS / workload.config, instance))
        except OutOfMemory:
            print(f"{workload.name} has no room on {instance}")
    return found


def main() -> None:
    """Write the rates of all workloads."""
    text = json.dumps({one.name: rates(one) for one in WORKLOADS}, indent=1)
    write(RATES, text + "\n")


if __name__ == "__main__":
    main()
