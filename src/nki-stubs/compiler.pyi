# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.nki.configs import AddressRotation as AddressRotation
from trnsim.nki.configs import CompileConfig as CompileConfig
from trnsim.nki.configs import SpecializationConfig as SpecializationConfig
from typing import Any


