"""Reports of `neuron-monitor` from a pipe, one JSON object a line."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from typing import IO, Any, Final

_REPORT_FIELDS: Final = {
    "neuron_runtime_data",
    "system_data",
    "instance_info",
    "neuron_hardware_info",
}


def is_redirected(stream: IO[str]) -> bool:
    """True if `stream` is a pipe, a socket or a file: another program writes it."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def reports(stream: IO[str], complain: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """The reports of `stream`, until it ends; `complain` gets a message about any other line."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="surrogateescape")  # a line that is no UTF-8 is left out, too
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            report = json.loads(line)
            json.dumps(report, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
            complain(f"line {number} has text that is no Unicode")
            continue
        except (ValueError, RecursionError) as error:
            complain(f"line {number} is no JSON: {error}")
            continue
        if isinstance(report, dict) and report.keys() >= _REPORT_FIELDS:
            yield report
        else:
            complain(f"line {number} is no report of neuron-monitor")
