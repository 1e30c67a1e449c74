"""The estimate of a whole model in a report: modules, operations, engines, HBM traffic.

A part's time is its share of the critical path (`measures.parts`), so that parts add up to the
device time. Equal layers are one row, "layers.*", with the time of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from trnsim.document.answer import Block, Note, Table, columns, label_table
from trnsim.document.values import picked
from trnsim.errors import SourceLine
from trnsim.isa import Engine
from trnsim.profile.analysis.data import JsonObject, rounded_ns
from trnsim.profile.measures.parts import WAITING, PartCost
from trnsim.profile.units import bytes_text, percent_text, time_text

_NS_PER_S: Final = 1e9
_MOST_SHOWN_ROWS: Final = 8
NO_MODULE: Final = "(no module)"
"""Work that belongs to no module of the model, such as stores of results to HBM."""


@dataclass(frozen=True, slots=True)
class Share:
    """Time and traffic of the operations of a module.

    Attributes:
        module: the path of the module, or "".
        operation: the kind of the operations, in words.
        times: number of equal layers that the module stands for; 1 outside of them.
        part: time and traffic, of all these layers together.
        line: the line of the user's program that calls the operations.
    """

    module: str
    operation: str
    times: int
    part: PartCost
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """A model's estimate. Times in seconds.

    Attributes:
        launch_s: fixed cost of starting the model.
        device_time_s: device time of its programs.
        exchanges_s: time of exchanges between ranks outside of its programs.
        bound_s: lower bound of the time of any program of the model.
        binds: the resource that sets the bound: "products", "HBM" or "links".
        flop: multiplications and additions of its products.
        hbm_bytes: bytes of weights, inputs and outputs, each once.
        mfu: model FLOP utilisation: `flop` over the peak rate times the device time.
        mbu: memory bandwidth utilisation: least time of `hbm_bytes` over the device time.
        programs: number of programs that the model is split into.
        layers: equal layers of which only a few were compiled; 0 if all operations were compiled.
        compiled: number of these layers that were compiled.
        shares: time and traffic by module and operation, in the model's order.
        notes: reasons why parts of the model are separate kernels, or why times are scaled.
        likely_s: P10 and P90 of `time_s`; empty where they are unknown.
    """

    launch_s: float
    device_time_s: float
    exchanges_s: float
    bound_s: float
    binds: str
    flop: float
    hbm_bytes: float
    mfu: float
    mbu: float
    programs: int
    layers: int
    compiled: int
    shares: tuple[Share, ...]
    notes: tuple[str, ...] = ()
    likely_s: tuple[float, ...] = ()

    @property
    def time_s(self) -> float:
        """Launch, programs and exchanges, one after another."""
        return self.launch_s + self.device_time_s + self.exchanges_s

    @property
    def bound_ratio(self) -> float:
        """The estimated time divided by the physical bound; infinite if the bound is zero."""
        return self.time_s / self.bound_s if self.bound_s else float("inf")

    def scaled(self, factor: float, note: str) -> ModelEstimate:
        """The estimate with all times multiplied by `factor`, for the reason in `note`."""
        shares = (
            replace(share, part=share.part.with_times_scaled(factor)) if factor != 1 else share
            for share in self.shares
        )
        return replace(
            self,
            launch_s=factor * self.launch_s,
            device_time_s=factor * self.device_time_s,
            exchanges_s=factor * self.exchanges_s,
            mfu=self.mfu / factor,
            mbu=self.mbu / factor,
            shares=tuple(shares),
            notes=(*self.notes, note),
        )

    def longest_modules(self, count: int) -> str:
        """The `count` modules that take most time, in words."""
        parts = _by_key(self.shares, lambda share: share.module)
        rows = sorted(parts.items(), key=_time_key)[:count]
        total = self.device_time_s or 1.0
        return "; ".join(
            f"{module or NO_MODULE} {time_text(part.time_s)} ({percent_text(part.time_s / total)})"
            for module, part in rows
        )

    def as_data(self) -> JsonObject:
        """The model in a report."""
        operations = _by_key(self.shares, lambda share: share.operation)
        return {
            "time_ns": rounded_ns(self.time_s),
            "launch_ns": rounded_ns(self.launch_s),
            "device_ns": rounded_ns(self.device_time_s),
            "exchanges_ns": rounded_ns(self.exchanges_s),
            "bound_ns": rounded_ns(self.bound_s),
            **picked(self, "binds flop hbm_bytes mfu mbu programs layers compiled"),
            "modules": modules(self.shares),
            "operations": [
                {"name": name or "other", **_row(part)}
                for name, part in sorted(operations.items(), key=_time_key)
            ],
            "engines": _engines(self.shares),
            "traffic": _traffic(self.shares),
            "said": list(self.notes),
            "likely_ns": [rounded_ns(time_s) for time_s in self.likely_s],
        }


def model_blocks(model: JsonObject) -> list[Block]:
    """A model in a report: its time, bound, MFU and MBU, and the modules with most time."""
    bound_ns, device_ns = model["bound_ns"], model["device_ns"] or 1.0
    times = f", the time is {model['time_ns'] / bound_ns:.1f} times that" if bound_ns else ""
    figures = [
        ("model", time_text(model["time_ns"] / _NS_PER_S)),
        ("physical bound", f"{time_text(bound_ns / _NS_PER_S)} of {model['binds']}{times}"),
        ("use", f"MFU {percent_text(model['mfu'])}, MBU {percent_text(model['mbu'])}"),
    ]
    rows = sorted((row for row in model["modules"] if row["own_ns"]), key=lambda r: -r["own_ns"])
    cells = [
        [
            row["path"],
            time_text(row["own_ns"] / _NS_PER_S),
            percent_text(row["own_ns"] / device_ns),
            row["bound_by"],
            bytes_text(row["hbm_bytes"]),
        ]
        for row in rows[:_MOST_SHOWN_ROWS]
    ]
    layers_note = (
        f", with {model['compiled']} of {model['layers']} equal layers" if model["layers"] else ""
    )
    return [
        label_table(figures),
        Table(columns("module | critical path | share | mostly | HBM"), cells),
        Note(f"its program{layers_note}:"),
    ]


def modules(shares: Iterable[Share]) -> list[JsonObject]:
    """The tree of modules, parents first, each with the sum of itself and its descendants.

    A module without operations of its own and with a single child is left out. The number of equal
    layers stands in the first row of a path that has a star.
    """
    own_costs = _by_key(shares, lambda share: share.module or NO_MODULE)
    times = {share.module: share.times for share in shares}
    tree_costs: dict[str, PartCost] = {}
    children_of: dict[str, dict[str, None]] = {}
    for path, part in own_costs.items():
        names = path.split(".")
        ancestry = ["", *(".".join(names[: index + 1]) for index in range(len(names)))]
        for parent, child in pairwise(ancestry):
            tree_costs[child] = tree_costs.get(child, PartCost()).plus(part)
            children_of.setdefault(parent, {})[child] = None
    rows: list[JsonObject] = []

    def add(path: str, depth: int, layers_above: int) -> None:
        children = list(children_of.get(path, ()))
        if path in own_costs or len(children) > 1:
            number = max(times[name] for name in times if _is_in(name, path)) if "*" in path else 1
            own_ns = rounded_ns(own_costs.get(path, PartCost()).time_s)
            row = {"path": path, "depth": depth, "times": number // layers_above, "own_ns": own_ns}
            rows.append({**row, **_row(tree_costs[path])})
            depth, layers_above = depth + 1, number
        for child in children:
            add(child, depth, layers_above)

    for path in children_of.get("", ()):
        add(path, 0, 1)
    return rows


def _is_in(path: str, ancestor: str) -> bool:
    return path == ancestor or path.startswith(f"{ancestor}.")


def _by_key(shares: Iterable[Share], key: Callable[[Share], str]) -> dict[str, PartCost]:
    parts: dict[str, PartCost] = {}
    for share in shares:
        parts[key(share)] = parts.get(key(share), PartCost()).plus(share.part)
    return parts


def _time_key(row: tuple[str, PartCost]) -> float:
    return -row[1].time_s


def _row(part: PartCost) -> JsonObject:
    return {
        "instructions": round(part.instructions),
        "time_ns": rounded_ns(part.time_s),
        "bound_by": label(part.bound_by),
        "hbm_bytes": round(sum(part.hbm_bytes.values())),
    }


def label(name: str) -> str:
    """An engine, or `WAITING`, in words: "Tensor Engine"."""
    if name in Engine.__members__:
        return Engine[name].label
    return "waiting for results" if name == WAITING else name or "nothing"


def _engines(shares: Iterable[Share]) -> list[JsonObject]:
    total = _total(shares)
    names = dict.fromkeys([*total.critical_s, *total.busy_s])
    rows: list[dict[str, Any]] = [
        {
            "engine": label(name),
            "critical_ns": rounded_ns(total.critical_s.get(name, 0.0)),
            "busy_ns": rounded_ns(total.busy_s.get(name, 0.0)),
        }
        for name in names
    ]
    return sorted(rows, key=lambda row: -row["critical_ns"])


def _traffic(shares: Iterable[Share]) -> list[JsonObject]:
    bytes_by_reason = _total(shares).hbm_bytes
    rows = sorted(bytes_by_reason.items(), key=lambda row: -row[1])
    return [{"reason": reason, "bytes": round(nbytes)} for reason, nbytes in rows]


def _total(shares: Iterable[Share]) -> PartCost:
    return _by_key(shares, lambda _: "").get("", PartCost())
