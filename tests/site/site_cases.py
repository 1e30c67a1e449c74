"""Files of sites."""

import json

from trnsim.site.site_file import OTHER, sealed
from trnsim.version import VERSION


def correction(chip, family, parts, sigma=0.05, rows=14):
    """A correction as `trnsim calibrate` writes it."""
    fields = {"chip": chip, "family": family, "parts": parts, "sigma": sigma, "rows": rows}
    return sealed(fields)


def write_site(path, *, factor=2.0, chip="trainium1", families=("decode",), sigma=0.05):
    """The file of a site whose weights take `factor` times as long as estimated."""
    head = sealed({"version": VERSION, "written": "2026-11-20", "rows": 14})
    check = head.pop("check")
    parts = {"": 1.5, "weights": factor}
    corrections = [
        *(correction(chip, family, parts, sigma) for family in families),
        *(correction(OTHER, family, {"": 1.2}, 0.2, 0) for family in families),
        correction(chip, OTHER, {"": 1.1}, 0.2, 0),
        correction(OTHER, OTHER, {"": 1.05}, 0.3, 0),
    ]
    told = {"schema": "calibrate/1", **head, "corrections": corrections, "check": check}
    path.write_text(json.dumps(told, indent=1))
    return path
