"""Versions of NKI, and the one table of the behaviours in which they differ.

A version is data, as a chip is: front end, instructions and checks ask whether the version of the
running kernel follows a behaviour (`NeuronCore.nki`), and compare no versions themselves.
"""

from trnsim.behaviours.behaviour import Behaviour, Effect
from trnsim.behaviours.version import LATEST, VERSIONS, Version, version_named

__all__ = ["LATEST", "VERSIONS", "Behaviour", "Effect", "Version", "version_named"]
