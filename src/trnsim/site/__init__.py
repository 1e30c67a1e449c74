"""A user's measurements: the file that `trnsim calibrate` writes and every estimate reads."""

from trnsim.site.current import (
    ENVIRONMENT,
    NAME,
    cache_key,
    cached,
    current,
    note_family,
    note_used,
    recorded_families,
    recorded_words,
    take_used,
    using,
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
    "cached",
    "current",
    "note_family",
    "note_used",
    "recorded_families",
    "recorded_words",
    "sealed",
    "take_used",
    "using",
    "without",
]
