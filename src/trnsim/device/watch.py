"""The activity of this process on its devices, for the state of the instance.

State is kept from the process's first tensor on a device, or its first run of a kernel. While a
reader listens, calls are counted by kind in a recording, and a daemon thread turns them into busy
and elapsed times once a second. Without readers nothing is recorded or counted.

Busy time is estimated by engine; elapsed time is launches, device time and awaited exchanges, one
after the other. `TRNSIM_STATE=off` keeps no state. A program never fails because of its state.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from trnsim.arch.environment import instance_target
from trnsim.device import call_log, faults, hbm_use
from trnsim.device.call_log import FindScope, Recording
from trnsim.device.call_time import CallTime, DeviceCall
from trnsim.device.collective_log import CollectiveCall, kind_of
from trnsim.device.device_core import logical_config, target, visible_cores
from trnsim.errors import EmulatorError
from trnsim.fabric.fabric import Fabric
from trnsim.instance.cores import (
    COUNT,
    LOCAL_PROCESSES,
    LOCAL_RANK,
    VISIBLE,
    environment_number,
    is_chosen,
    process_instance,
)
from trnsim.instance.model import instance_model
from trnsim.instance.state import hardware, identity
from trnsim.instance.state.folder import OFF, STATE_VARIABLE, state_folder
from trnsim.instance.state.free_cores import core_choice, free_cores
from trnsim.instance.state.reader import read_all
from trnsim.instance.state.record import ProcessRecord, percentiles
from trnsim.instance.state.writer import Writer, say_not_kept

if TYPE_CHECKING:  # a tensor on the device needs no kernel
    from trnsim.program import Team
    from trnsim.runs import Run, RunObserver

_NAMES: Final = {"tensor": "pe"}
"""Names of engines in the state where they differ; aws-neuron-sdk's tools say PE."""
_TAG: Final = "NEURON_PROCESS_TAG"
_TAG_LENGTH: Final = 255
_COMMAND_LENGTH: Final = 4096
_TIMESTAMP_GRAIN_NS: Final = 1_000_000_000
"""Age from which a file's time shows every change: more than the grain of file systems' times."""


class WorkRecording(Recording):
    """A recording that counts calls by core and kind, and sums their times.

    Attributes:
        executions: number of executions by status.
        errors: number of errors by kind.
        busy_s: by core, the busy seconds of each engine.
        elapsed_s: elapsed seconds by core.
        flop: multiplications and additions of matrix products by core.
        total_s: number of executions since the last record, by their seconds with launches.
        device_s: number of executions since the last record, by their seconds without launches.
        latencies: number of all executions by both times, in three digits.
        is_reported: True if a record has `total_s` and `device_s`: the next execution empties them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.executions: Counter[str] = Counter({"completed": 0})
        self.errors: Counter[str] = Counter()
        self.busy_s: defaultdict[int, dict[str, float]] = defaultdict(dict)
        self.elapsed_s: defaultdict[int, float] = defaultdict(float)
        self.flop: defaultdict[int, float] = defaultdict(float)
        self.total_s: Counter[float] = Counter()
        self.device_s: Counter[float] = Counter()
        self.latencies: Counter[tuple[float, float]] = Counter()
        self._new_calls: Counter[tuple[int, DeviceCall]] = Counter()
        self._exchanges: Counter[CollectiveCall] = Counter()
        self.is_reported = False
        self._times: dict[DeviceCall, CallTime] = {}
        self._times_lock, self._sums_lock = Lock(), Lock()

    def note(self, call: DeviceCall, core: int, find_scope: FindScope) -> None:
        """Count a call."""
        del find_scope
        self._new_calls[core, call] += 1

    def note_collective(
        self, collective: CollectiveCall, buffers: Iterable[int], is_async: bool
    ) -> None:
        """Count an exchange that is awaited; an asynchronous exchange is assumed to be hidden."""
        del buffers
        if not is_async:
            self._exchanges[collective] += 1

    def add_run(self, run: Run, core: int = 0) -> None:
        """Add a run of a kernel."""
        from trnsim.profile.measures.busy import busy_s  # noqa: PLC0415  readers alone need it
        from trnsim.profile.measures.traffic import Totals  # noqa: PLC0415  as above

        timeline = run.timeline
        flop = sum(Totals(t.program).model_flops for t in run.timelines)
        self._add(core, 1, flop, timeline.device_time_s, timeline.launch_s, busy_s(timeline))

    def compute_times(self) -> None:
        """Add the times of the counted calls; threads do so one after the other."""
        with self._times_lock:
            self._compute_times()

    def _compute_times(self) -> None:
        new_calls, self._new_calls = self._new_calls, Counter()
        exchanges, self._exchanges = self._exchanges, Counter()
        if not (new_calls or exchanges):
            return
        # The modules for times are loaded with the first reader: other programs do without.
        from trnsim.device.call_time import time_of  # noqa: PLC0415
        from trnsim.device.rank_placement import placed_time  # noqa: PLC0415
        from trnsim.lower.lowering import weighted_sum  # noqa: PLC0415

        for (core, call), number in [
            *new_calls.items()
        ]:  # a call may be under way in another thread
            time = self._times.get(call)
            if time is None:
                time = self._times[call] = time_of(call, target().name)
            busy = weighted_sum((1.0, kernel.busy_s) for kernel in time.kernels)
            self._add(core, number, time.flop, time.device_time_s, time.launch_s, busy)
        for exchange, number in [*exchanges.items()]:
            kind = kind_of(exchange.kind)
            if kind is not None:
                collective_time = placed_time(
                    kind, exchange.nbytes, [exchange.ranks], target().name, exchange.floor
                )
                self.elapsed_s[0] += number * collective_time.time_s

    def _add(
        self,
        core: int,
        number: int,
        flop: float,
        device_s: float,
        launch_s: float,
        busy: dict[str, float],
    ) -> None:
        """Add `number` executions, each of these figures, from any thread."""
        with self._sums_lock:
            if self.is_reported:
                self.total_s, self.device_s, self.is_reported = Counter(), Counter(), False
            self.executions["completed"] += number
            self.flop[core] += number * flop
            self.elapsed_s[core] += number * (device_s + launch_s)
            self.total_s[device_s + launch_s] += number
            self.device_s[device_s] += number
            self.latencies[_shortened(device_s + launch_s), _shortened(device_s)] += number
            engine_s = self.busy_s[core]
            for engine, time_s in busy.items():
                name = _NAMES.get(engine, engine)
                engine_s[name] = engine_s.get(name, 0.0) + number * time_s


class _Watch:
    """The state of this process.

    Attributes:
        tool: the framework that runs in it.
        work: calls that were made while a reader listened.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.work = WorkRecording()
        self.cores = own_cores()
        core_count = max(max(self.cores) + 1, environment_number(LOCAL_PROCESSES))
        self.instance = process_instance(target(), logical_config(), core_count)
        if _counts_cores():
            running = read_all(state_folder(), listen_s=0)
            free = free_cores(running, len(self.cores), self.instance)
            if free:
                self.cores = free
        self._is_spread = False
        self._faults_ns = 0
        self._folder: Path | None = None
        self.writer = Writer(self.record, self.listen, self.read_faults)

    def listen(self, is_wanted: bool) -> None:
        """Begin or end counting, as readers come and go."""
        if is_wanted and self.work not in call_log.recordings:
            call_log.recordings.append(self.work)
        elif not is_wanted and self.work in call_log.recordings:
            call_log.recordings.remove(self.work)

    def spread(self, fabric: Fabric, ranks: int) -> None:
        """Use the cores of `ranks` ranks on the first instance, where these are more."""
        local_ranks = min(ranks, fabric.ranks_per_node)
        if local_ranks > len(self.cores) or not (self._is_spread or is_chosen()):
            self._is_spread = True
            self.instance = instance_model(fabric.instance.name, fabric.lnc)
            self.cores = tuple(range(fabric.first, fabric.first + local_ranks))
            self._faults_ns = 0
            self.writer.look()
            self.writer.write()

    def read_faults(self, folder: Path) -> None:
        """Read the faults again if they have changed."""
        self._folder = folder
        changed_ns = hardware.changed_ns(folder)
        if changed_ns == self._faults_ns:
            return
        # A change within the file system's grain of time would be missed, so look once more.
        is_settled = abs(time.time_ns() - changed_ns) > _TIMESTAMP_GRAIN_NS
        self._faults_ns = changed_ns if is_settled else -1
        active_faults = [fault for fault in hardware.injected_faults(folder) if fault.is_active()]
        first_faults: dict[int, hardware.StoredFault] = {}
        for index, core in enumerate(self.cores):
            device, core_of_device = self._place(core)
            core_faults = [
                fault for fault in active_faults if fault.strikes(core_of_device, device)
            ]
            if core_faults:
                first_faults[index] = core_faults[0]
        faults.pending_faults.clear()
        faults.pending_faults.update(first_faults)

    def count_fault(self, kind: str, stored_fault: hardware.StoredFault | None) -> None:
        """Count a fault that strikes; one that is not stored is recorded as one of the hardware."""
        fault_kind = hardware.KINDS[kind]
        if fault_kind.execution:
            self.work.executions[fault_kind.execution] += 1
        self.work.errors[fault_kind.error] += 1
        if stored_fault is None and self._folder is not None:
            device, core = self._place(self.cores[0])
            with suppress(EmulatorError):
                serial = self.instance.devices[device].serial_number
                recorded = hardware.StoredFault(
                    kind, device, core, time.time(), 0.0, serial_number=serial
                )
                hardware.inject(self._folder, recorded)
        # A lasting fault that ends no program strikes each call: these are written once a second.
        if fault_kind.status or stored_fault is None:
            self.writer.write()

    def _place(self, core: int) -> tuple[int, int]:
        """The device of a core, and the core's number within it."""
        return divmod(core, self.instance.devices[0].cores)

    def record(self) -> ProcessRecord:
        """The present record of the process."""
        try:
            self.work.compute_times()
        except (EmulatorError, RuntimeError):
            self.work.errors["runtime"] += 1
        pid, started = identity.own_identity()
        record = ProcessRecord(
            pid,
            started,
            command(),
            self.tool,
            os.environ.get(_TAG, "")[:_TAG_LENGTH] or str(pid),
            self.instance.name,
            self.instance.lnc,
            self.cores,
            time.time(),
            memory_bytes={
                core: hbm_use.by_category(index, self.instance.lnc)
                for index, core in enumerate(self.cores)
            },
            host_bytes={"application_memory": _resident_bytes()},
            busy_s={self.cores[i]: dict(busy) for i, busy in list(self.work.busy_s.items())},
            elapsed_s={self.cores[i]: time_s for i, time_s in list(self.work.elapsed_s.items())},
            flop={self.cores[i]: flop for i, flop in list(self.work.flop.items())},
            executions=dict(self.work.executions),
            errors=dict(self.work.errors),
            total_latency_s=percentiles(self.work.total_s),
            device_latency_s=percentiles(self.work.device_s),
            latencies=tuple((*key, count) for key, count in [*self.work.latencies.items()]),
            models=tuple(
                model
                for index, core in enumerate(self.cores)
                for model in hbm_use.loaded_models(index, core)
            ),
            loads={core: hbm_use.load_count(index) for index, core in enumerate(self.cores)},
        )
        self.work.is_reported = True
        return record


def _shortened(time_s: float) -> float:
    """A time rounded to three digits, so that distinct values stay few."""
    return float(f"{time_s:.3g}")


def _counts_cores() -> bool:
    """True if the environment names the number of cores, and not which."""
    return COUNT in os.environ and VISIBLE not in os.environ


def own_cores() -> tuple[int, ...]:
    """The cores of this process on its instance: as named, else the core of its local rank."""
    cores = visible_cores()
    rank = os.environ.get(LOCAL_RANK, "")
    if len(cores) == 1 and rank.isdecimal() and VISIBLE not in os.environ:
        return (int(rank),) if COUNT not in os.environ else cores
    return cores


def command() -> str:
    """The command line of this process, as a shell would take it."""
    return shlex.join([sys.executable, *sys.orig_argv[1:]])[:_COMMAND_LENGTH]


def _resident_bytes() -> int:
    """Resident host memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  once a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


_watching: Final[dict[int, _Watch]] = {}
"""The state by process number, so that a fork begins without state."""


def begin(tool: str = "") -> None:
    """Keep the state of this process from now on; `tool` is its framework, "" to detect it.

    If it cannot be kept, that is reported once on the standard error.
    """
    pid = os.getpid()
    if pid in _watching or os.environ.get(STATE_VARIABLE) == OFF:
        return
    call_log.recordings[:] = [
        recording for recording in call_log.recordings if not isinstance(recording, WorkRecording)
    ]
    try:
        with core_choice(state_folder()) if _counts_cores() else nullcontext():
            watch = _Watch(tool or _tool())
            _watching.clear()
            _watching[pid] = watch
            faults.listeners[:] = [watch.count_fault]
            watch.writer.start()
    except (EmulatorError, OSError, RuntimeError) as error:  # RuntimeError: of one thread too many
        say_not_kept(error.reason if isinstance(error, EmulatorError) else str(error))
        os.environ[STATE_VARIABLE] = OFF


def current_watch() -> _Watch | None:
    """The state of this process; None if it is not kept."""
    return _watching.get(os.getpid())


def end() -> None:
    """Stop keeping the state of this process."""
    watch = _watching.pop(os.getpid(), None)
    if watch is not None:
        faults.listeners.clear()
        faults.pending_faults.clear()
        watch.listen(is_wanted=False)
        watch.writer.stop()


def _tool() -> str:
    modules = sys.modules
    return "jax" if "trnsim.jax.plugin" in modules and "torch" not in modules else "torch"


class _Runs:
    """Observer that reports runs of kernels to the state."""

    def begins(self, fabric: Fabric | None = None, ranks: int = 1) -> None:
        """Note that the process uses the devices of its ranks.

        Raises:
            BadInput: TRNSIM_INSTANCE names an instance that is not emulated, or cores are named
                that do not exist.
            HardwareFault: a device has a fault.
        """
        instance_target()
        visible_cores()
        begin("kernel")
        watch = current_watch()
        if watch is not None and fabric is not None:
            watch.spread(fabric, ranks)
        if faults.pending_faults:
            for core in range(ranks):
                faults.strike_fault(core)

    def issues(self, team: Team, title: str, rank: int = 0) -> None:
        """Note that the rank's cores hold the kernel's allocations until it has run."""
        hbm_use.note_kernel_start(team, title, rank)

    def all_over(self) -> None:
        """Note that the kernels of this thread are over."""
        hbm_use.note_kernel_end()

    def ended(self, run: Run, rank: int = 0) -> None:
        """Count the run, where a reader listens; ranks on other instances are left out."""
        watch = current_watch()
        if watch is not None and watch.work in call_log.recordings and rank < len(watch.cores):
            watch.work.add_run(run, rank)


RUNS: Final[RunObserver] = _Runs()
