"""The emulated instance: its devices and cores, and the state of what runs on it."""

from typing import Final

INSTANCE_ID: Final = "i-00000000emulated"
"""No instance has it: an emulated one has no number at EC2."""
