"""What a user measured: the file that `trnsim calibrate` writes and every estimate reads."""

from trnsim.site.current import ENVIRONMENT, NAME, current, recorded, take_used, without
from trnsim.site.site_file import OTHER, Correction, Site, sealed

__all__ = [
    "ENVIRONMENT",
    "NAME",
    "OTHER",
    "Correction",
    "Site",
    "current",
    "recorded",
    "sealed",
    "take_used",
    "without",
]
