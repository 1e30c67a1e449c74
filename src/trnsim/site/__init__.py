"""A user's measurements: the file that `trnsim calibrate` writes and every estimate reads."""

from trnsim.site.current import (
    ENVIRONMENT,
    NAME,
    cache_key,
    current,
    note_family,
    note_used,
    recorded_families,
    take_used,
    without,
)
from trnsim.site.site_file import KERNELS_FAMILY, OTHER, Correction, SiteCorrections, sealed

__all__ = [
    "ENVIRONMENT",
    "KERNELS_FAMILY",
    "NAME",
    "OTHER",
    "Correction",
    "SiteCorrections",
    "cache_key",
    "current",
    "note_family",
    "note_used",
    "recorded_families",
    "sealed",
    "take_used",
    "without",
]
