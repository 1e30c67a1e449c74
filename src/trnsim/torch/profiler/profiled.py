"""The device's events in a window of PyTorch's profiler, in the form of Kineto's events.

A call leaves a mark among the host's events: an empty scope with a number. Its caller is the
innermost operator around the mark, by PyTorch's own nesting, so nothing is matched by name. A call
without such an operator (in a thread that is not profiled, or without the host's activity) has
device time but belongs to no row of the host.

Host events inside an operator of the device are the emulator's own and would not exist with a chip,
so they are left out. So are marks.

`device.placement` places kernels on the host's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.device.call_time import DeviceCall
from trnsim.device.placement import HostCall, PlacedKernel, place_kernels
from trnsim.torch import pytorch
from trnsim.torch.pytorch import KinetoEvent

MARK: Final = "trnsim::call#"
"""The prefix of a mark's name, which the number of its call follows."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A call on the device.

    Attributes:
        number: the number of its mark.
        call: the operator, graph or kernel.
        host_ns: the time of its return, on the host's clock.
    """

    number: int
    call: DeviceCall
    core: int
    host_ns: int


@dataclass(frozen=True)
class ProfiledWindow:
    """The events of a window of the profiler.

    Attributes:
        host_events: the program's events on the host.
        hidden_events: marks, and the emulator's events on the host.
        spans: the device's kernels, in the order of the calls.
    """

    host_events: list[KinetoEvent]
    hidden_events: list[KinetoEvent]
    spans: list[PlacedKernel]

    @property
    def missing(self) -> Counter[str]:
        """The number of calls whose time is missing in whole or in part, by reason."""
        return Counter(span.missing for span in self.spans if span.missing)


def profiled_window(
    events: Sequence[KinetoEvent], launches: Sequence[Launch], target: str
) -> ProfiledWindow:
    """The events of a window with the device's events, whose times are for `target`."""
    parents = _parents(events)
    mark_indices = {
        event.name(): index
        for index, event in enumerate(events)
        # Names of Python's functions may lie in freed memory (pytorch issue 64345).
        if not event.is_python_function() and event.name().startswith(MARK)
    }
    callers: set[int] = set()
    launchers: dict[int, int] = {}
    for launch in launches:
        mark = mark_indices.get(f"{MARK}{launch.number}", -1)
        launchers[launch.number] = parents[mark] if mark >= 0 else -1
        ancestor = launchers[launch.number]
        while ancestor >= 0:
            callers.add(ancestor)
            ancestor = parents[ancestor]
    inner_events = _descendants(parents, events, set(launchers.values()) - {-1})
    hidden_indices = (inner_events - callers) | set(mark_indices.values())
    launch_events = {n: events[index] if index >= 0 else None for n, index in launchers.items()}
    return ProfiledWindow(
        [event for index, event in enumerate(events) if index not in hidden_indices],
        [events[index] for index in sorted(hidden_indices)],
        place_kernels(_host_calls(launches, launch_events), target),
    )


def _host_event_order(events: Sequence[KinetoEvent]) -> list[int]:
    """Indices of the host's events, sorted by thread and then from the outside in."""
    places = [p for p, event in enumerate(events) if pytorch.is_on_host(event)]

    def key(index: int) -> tuple[int, int, int, int]:
        event = events[index]
        start, end = event.start_ns(), event.end_ns()
        return event.start_thread_id(), start, -end, event.correlation_id()

    return sorted(places, key=key)


def _parents(events: Sequence[KinetoEvent]) -> list[int]:
    """The index of the innermost operator around each event, or -1.

    Python functions (`with_stack`) do not count: only operators make calls.
    """
    parents = [-1] * len(events)
    open_events: list[int] = []
    for index in _host_event_order(events):
        event = events[index]
        while open_events and not _is_around(events[open_events[-1]], event):
            open_events.pop()
        parents[index] = open_events[-1] if open_events else -1
        if not event.is_python_function():
            open_events.append(index)
    return parents


def _is_around(outer: KinetoEvent, inner: KinetoEvent) -> bool:
    is_same_thread: bool = outer.start_thread_id() == inner.start_thread_id()
    end_ns: int = outer.end_ns()
    return is_same_thread and inner.start_ns() < end_ns and inner.end_ns() <= end_ns


def _descendants(
    parents: Sequence[int], events: Sequence[KinetoEvent], ancestors: set[int]
) -> set[int]:
    """Indices of the events inside one of `ancestors`."""
    descendants: set[int] = set()
    for index in _host_event_order(events):  # outer events first
        if parents[index] in ancestors or parents[index] in descendants:
            descendants.add(index)
    return descendants


def _host_calls(
    launches: Sequence[Launch], launchers: dict[int, KinetoEvent | None]
) -> Iterator[HostCall]:
    """The calls, each at the start of its operator, or without an operator at its own return."""
    for launch in launches:
        launcher = launchers[launch.number]
        called_ns = launch.host_ns if launcher is None else launcher.start_ns()
        yield HostCall(launch.call, launch.core, called_ns, launcher)


class DeviceEvent:
    """A kernel with the interface of Kineto's events."""

    def __init__(self, span: PlacedKernel) -> None:
        launcher_id = 0 if span.launcher is None else span.launcher.correlation_id()
        self._results: dict[str, Any] = {
            **_DEFAULT_RESULTS,
            "name": span.name,
            "activity_type": "kernel",
            "device_type": pytorch.PROFILED_DEVICE,
            "device_index": span.core,
            "start_ns": span.start_ns,
            "end_ns": span.end_ns,
            "duration_ns": span.end_ns - span.start_ns,
            "correlation_id": launcher_id,
            "linked_correlation_id": launcher_id,
            "external_id": launcher_id,
        }

    def __getattr__(self, method: str) -> Any:
        if method not in _DEFAULT_RESULTS:
            raise AttributeError(method)
        result = self._results[method]
        return lambda: result


_TEXT_METHODS: Final = ("name", "overload_name", "activity_type", "metadata_json")
_ZERO_METHODS: Final = (
    "device_index", "device_resource_id", "start_ns", "end_ns", "duration_ns", "nbytes", "flops",
    "correlation_id", "linked_correlation_id", "external_id", "flow_id", "flow_type", "scope",
    "start_thread_id", "end_thread_id", "fwd_thread_id",
)  # fmt: skip
_MINUS_ONE_METHODS: Final = (
    "cuda_elapsed_us", "privateuse1_elapsed_us", "sequence_nr",
    "python_id", "python_parent_id", "python_module_id",
)  # fmt: skip
_FALSE_METHODS: Final = (
    "is_async", "is_user_annotation", "is_python_function", "is_hidden_event", "flow_start",
)  # fmt: skip
_LIST_METHODS: Final = (
    "shapes", "dtypes", "concrete_inputs", "stack",
    "structured_input_shapes", "structured_input_strides",
)  # fmt: skip
_DEFAULT_RESULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(_TEXT_METHODS, ""),
    **dict.fromkeys(_ZERO_METHODS, 0),
    **dict.fromkeys(_MINUS_ONE_METHODS, -1),
    **dict.fromkeys(_FALSE_METHODS, False),
    **{method: [] for method in _LIST_METHODS},
    **{method: {} for method in ("kwinputs", "extra_meta")},
    "device_type": None,
}
"""All methods of the interface, with the default result of each."""
