"""One fleet that tests of its page share: a day of the example, by two policies."""

import json
import tempfile
from functools import cache
from pathlib import Path

from trnsim.system.fleet.comparison import compare
from trnsim.system.fleet.reading import read
from trnsim.system.fleet.report import values

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "fleet.yaml"


@cache
def made_of(days=1):
    """The figures, as JSON has them."""
    text = EXAMPLE.read_text().replace("days: 7", f"days: {days}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.yaml"
        path.write_text(text)
        scenario = read(path, lambda _: None)
    found = compare(scenario, ("separate", "threshold"), draws=5)
    return json.loads(json.dumps(values(scenario, found, 0)))
