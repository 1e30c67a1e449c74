"""The reports that exporters of neuron-monitor pass on: from a pipe, else measured here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from trnsim.cli.terminal import echo
from trnsim.tools.monitor.report_lines import is_redirected, reports
from trnsim.tools.monitor.series import CollectedSeries
from trnsim.tools.monitor.user_monitor import user_reports


def source() -> Iterator[dict[str, Any]]:
    """Reports from the standard input if it is a pipe or a file, else of the user's programs.

    Raises:
        BadInput: nothing is piped in, and the state folder cannot be used.
    """
    return reports(sys.stdin, _complain) if is_redirected(sys.stdin) else user_reports()


def collect(reports: Iterator[dict[str, Any]], series: CollectedSeries) -> Iterator[None]:
    """Add reports to `series`, one per step; one that is not understood is named, left out."""
    for report in reports:
        try:
            series.add(report)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            _complain(f"a report is not understood ({type(error).__name__}: {error})")
        else:
            yield


def _complain(problem: str) -> None:
    echo(f"trnsim: {problem}; left out", is_error=True)
