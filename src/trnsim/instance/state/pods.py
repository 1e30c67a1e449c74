"""Pods of Kubernetes that hold this machine's cores and devices, as neuron-monitor reports them.

`neuron-monitor-k8s-info` stores the table in the file `pods.json` of the state while it runs; the
monitor reads it. A table that was not renewed for three periods belongs to a process that ended.

Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-monitor-user-guide.rst, neuron_k8s_info.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trnsim.document.values import json_line
from trnsim.files import write

_FILE: Final = "pods.json"
_VALID_PERIODS: Final = 3
"""Periods of renewal for which a table holds."""
_LEAST_S: Final = 5.0
"""Time for which a table holds in any case: kubelet may take seconds to answer."""


@dataclass(frozen=True)
class PodUse:
    """The pod that holds a core or a device.

    Attributes:
        container_name: names of its containers that hold it.
    """

    pod_name: str
    namespace: str
    container_name: tuple[str, ...]


@dataclass(frozen=True)
class PodTable:
    """All pods that hold cores or devices.

    Attributes:
        period: seconds since the table before.
        neuroncores_k8s_info: the pod that holds each core, by the core's number.
        neurondevices_k8s_info: the pods that hold each device, by the device's number.
        error: the reason why it could not be read, or "".
        until: seconds since 1970 until which it holds.
    """

    period: float
    neuroncores_k8s_info: Mapping[str, PodUse] = field(default_factory=dict[str, PodUse])
    neurondevices_k8s_info: Mapping[str, PodUse] = field(default_factory=dict[str, PodUse])
    error: str = ""
    until: float = 0.0


def store(folder: Path, table: PodTable, every_s: float) -> None:
    """Store a table that is renewed every `every_s`.

    Raises:
        BadInput: the folder cannot be written to.
    """
    until = time.time() + max(_VALID_PERIODS * every_s, _LEAST_S)
    write(folder / _FILE, json_line({**vars(table), "until": until}) + "\n")


def remove(folder: Path) -> None:
    """Remove the table."""
    with suppress(OSError):
        (folder / _FILE).unlink(missing_ok=True)


def stored_pods(folder: Path) -> dict[str, Any] | None:
    """The table in the fields of a report; None if the stored one has expired."""
    with suppress(OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
        row = json.loads((folder / _FILE).read_bytes())
        if time.time() < row.pop("until"):
            names = ("period", "neuroncores_k8s_info", "neurondevices_k8s_info", "error")
            return {name: row[name] for name in names}
    return None
