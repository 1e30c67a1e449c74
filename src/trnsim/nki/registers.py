"""Use of a register by Python itself, as in `if register:`, which NKI 0.7 refuses.

Importing this module installs the check in `VirtualRegister`.

Source: nki.isa.VirtualRegister, Note; release notes of NKI 0.6 and 0.7.
"""

from __future__ import annotations

import sys

from trnsim.behaviours.chosen import asked_version
from trnsim.behaviours.language import DYNAMIC_LOOPS_WARN, WHILE_REGISTER
from trnsim.behaviours.scalars import REGISTER_HAS_VALUE
from trnsim.isa import UnsupportedOperator, VirtualRegister
from trnsim.isa.control.register import AS_CONDITION
from trnsim.nki.dialect import running_version
from trnsim.nki.loop_bodies import check_end_of_turn
from trnsim.nki.notices import DynamicLoopWarning
from trnsim.nki.register_loops import advance_loop
from trnsim.program import current_core, has_current_core
from trnsim.user_warnings import warn

__all__ = ["VirtualRegister", "check_python_use", "warn_of_removal"]


def check_python_use(use: str) -> None:
    """Refuse or warn of a use of a register by Python itself; silent before NKI 0.6.

    Outside kernels only a version that the user chose is followed.

    Args:
        use: the use in words, such as `register.AS_CONDITION`.

    Raises:
        UnsupportedOperator: from NKI 0.7 on; it is an IllegalInstruction and a TypeError.
    """
    if has_current_core():
        current_core().nesting.is_read |= use != AS_CONDITION
    elif asked_version() is None:
        return
    version = running_version()
    if not version.follows(REGISTER_HAS_VALUE):
        row = WHILE_REGISTER if use == AS_CONDITION else REGISTER_HAS_VALUE
        error = row.refusal(version, f"a register {use}")
        fix = f"{REGISTER_HAS_VALUE.instead}; or {error.fix}"
        raise UnsupportedOperator(
            error.reason, fix=error.fix if row is REGISTER_HAS_VALUE else fix, source=error.source
        )
    if version.follows(DYNAMIC_LOOPS_WARN):
        warn_of_removal(f"a register {use}")


def note_condition(is_true: bool) -> None:
    """Note a register that Python has read as a condition, in a `while` or elsewhere."""
    if has_current_core():
        core = current_core()
        if not advance_loop(core, sys._getframe(2), is_true, check_end_of_turn):  # noqa: SLF001
            core.nesting.is_read = True


def warn_of_removal(form: str) -> None:
    """Warn once, at the user's line, of a form that NKI 0.7 refuses."""
    warn(
        f"{form}: deprecated in {running_version()}, refused from NKI "
        f"{REGISTER_HAS_VALUE.until} on\n  fix: {DYNAMIC_LOOPS_WARN.instead}\n"
        f"  source: {DYNAMIC_LOOPS_WARN.source}",
        DynamicLoopWarning,
    )


VirtualRegister.when_python_reads = staticmethod(check_python_use)
VirtualRegister.when_answered = staticmethod(note_condition)
