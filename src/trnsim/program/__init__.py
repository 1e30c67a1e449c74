"""Programs: issuing instructions, executing them as they are issued, and recording them."""

from trnsim.program.capture import Capture
from trnsim.program.context import CoreContext
from trnsim.program.current import current_core, has_current_core, issuing_to, running_core
from trnsim.program.executable import Executable
from trnsim.program.joint import JointCall
from trnsim.program.liveness import Peak, capacity_errors, fit_programs, peak
from trnsim.program.program import Checked, Program, StorageUse
from trnsim.program.records import Call, Records
from trnsim.program.team import SharedMemoryObserver, Team

__all__ = [
    "Call",
    "Capture",
    "Checked",
    "CoreContext",
    "Executable",
    "JointCall",
    "Peak",
    "Program",
    "Records",
    "SharedMemoryObserver",
    "StorageUse",
    "Team",
    "capacity_errors",
    "current_core",
    "fit_programs",
    "has_current_core",
    "issuing_to",
    "peak",
    "running_core",
]
