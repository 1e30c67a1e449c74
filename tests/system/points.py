"""Functions of a module, as other processes need them."""

import os
import signal
from pathlib import Path

from trnsim.site import current, note_used


def corrected(point):
    """The point with the factor of the user's corrections on weights, or itself without them."""
    site = current()
    if site is None:
        return point
    note_used("of trainium1")
    return site.correction("trainium1", "decode").factor("weights") * point


def half(point):
    return point / 2


def plus(point, more):
    return point + more


def noted(point, file, until=None):
    """One more; the point is written down, and a search ends at `until` unless told to go on."""
    path = Path(file)
    if until is not None and point >= until and not path.with_name("on").exists():
        raise KeyboardInterrupt
    with path.open("a") as calls:
        calls.write(f"{point}\n")
    return point + 1


def die_once(point, file):
    """One more; the first process that meets point 20 is killed."""
    path = Path(file)
    if point == 20 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return point + 1
