"""A trial: the time of a setting, in whatever process it runs.

A trial ends early if a lower bound of its time exceeds a limit. The bound is the launch and the
busy time of the busiest engine so far, which only grows as instructions are issued.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from trnsim import arch
from trnsim.errors import EmulatorError, is_users_file
from trnsim.gate.kernel_file import cases, module_of
from trnsim.gate.kernel_time import draws_us
from trnsim.isa import Engine
from trnsim.program import Program, Team
from trnsim.runs import collecting, launch, watching
from trnsim.tune.space import Setting, SettingSpace, space_of

_US_PER_S: Final = 1e6
_DECIMALS: Final = 4


class _BeyondLimitError(Exception):
    """The bound of a setting's time exceeds the limit."""

    def __init__(self, bound_us: float) -> None:
        super().__init__(bound_us)
        self.bound_us = bound_us


def trial(point: Sequence[Any], *, file: str, kernel: str, chip: str, identity: str) -> Any:
    """The result of a setting as plain values.

    It has ``time_us``, ``draws_us``, ``busiest`` and ``busy_share``; for an illegal setting
    ``error`` and ``kind``; for a setting that takes longer than the limit ``beyond_us``.

    Args:
        point: the setting, and the limit in microseconds or None.
        file: the file of the kernel.
        kernel: its name.
        chip: the chip.
        identity: a digest of everything else that a result depends on, as a part of its cache key.
    """
    setting, limit_us = tuple(point[0]), point[1]
    return trial_result(_space(file, kernel, identity), setting, arch.target(chip), limit_us)


@cache
def _space(file: str, kernel: str, identity: str) -> SettingSpace:
    """The settings of a kernel in this process; a file that changed has another identity."""
    del identity
    path = Path(file)
    (case,) = cases(path, module_of(path), kernel)
    return space_of(case)


def trial_result(
    space: SettingSpace, setting: Setting, chip: arch.Target, limit_us: float | None = None
) -> dict[str, Any]:
    """The result of a setting, as `trial`."""
    programs: list[Program] = []

    def note_start(team: Team, _title: str) -> None:
        programs.extend(context.program for context in team.contexts)

    def check_limit(_text: str) -> None:
        if limit_us is not None and programs:
            bound_us = max(_bound_us(program) for program in programs)
            if bound_us > limit_us:
                raise _BeyondLimitError(bound_us)

    try:
        kernel, keywords = space.kernel_for(setting)
        with collecting(), watching(check_limit):
            run = launch(
                kernel,
                space.case.arguments.positional,
                keywords,
                chip,
                numerics=False,
                races="warn",
                on_start=note_start,
            )
    except _BeyondLimitError as error:
        return {"beyond_us": round(error.bound_us, _DECIMALS)}
    except EmulatorError as error:
        return {"error": error.reason, "kind": type(error).__name__}
    except AssertionError as error:
        return {"error": str(error) or "an assertion of the kernel", "kind": "AssertionError"}
    except (Exception, SystemExit) as error:
        if not _is_users(error):
            raise
        return {"error": f"{type(error).__name__}: {error}", "kind": type(error).__name__}
    timeline = run.timeline
    busy_s = timeline.busy_s()
    busiest = max(busy_s, key=lambda engine: busy_s[engine], default=None)
    share = busy_s[busiest] / timeline.device_time_s if busiest is not None else 0.0
    return {
        "time_us": round(timeline.total_time_s * _US_PER_S, _DECIMALS),
        "draws_us": list(draws_us(timeline, timeline.program.core)),
        "busiest": "" if busiest is None else busiest.label,
        "busy_share": round(share, _DECIMALS),
    }


def _is_users(error: BaseException) -> bool:
    """True if the user's own code raised an error: a width of zero, a division by it."""
    frames = traceback.extract_tb(error.__traceback__)
    return is_users_file(frames[-1].filename)


def _bound_us(program: Program) -> float:
    """The launch and the busy time of the busiest engine, of the instructions issued so far."""
    busy_s: dict[Engine, float] = {}
    patterns = program.checked
    for number in program.which:
        cost, engine = patterns[number].cost, patterns[number].engine
        busy_s[engine] = busy_s.get(engine, 0.0) + cost.interval_s
    launch_s = float(program.core.launch_s)
    return _US_PER_S * (launch_s + max(busy_s.values(), default=0.0))
