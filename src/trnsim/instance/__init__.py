"""The emulated instance: its devices and cores, and the state of the processes on it."""

from typing import Final

INSTANCE_ID: Final = "i-00000000emulated"
"""The number of an emulated instance, which no instance at EC2 has."""
