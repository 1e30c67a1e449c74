"""Timeline -> summary, advice, reports: pages, tables, traces, comparisons.

It reads timelines and never changes them. All figures are estimates, with the facts behind them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trnsim.profile.analysis.advice import Advice, advise
    from trnsim.profile.analysis.diff import Diff, compare
    from trnsim.profile.analysis.summary import EngineUse, Summary, summarize
    from trnsim.profile.formats.stored import load, report_of, summary_of
    from trnsim.profile.measures.lines import LineTime, time_by_line
    from trnsim.profile.report import write_page, write_report, write_traces
    from trnsim.profile.report_page.html import html

__all__ = [
    "Advice",
    "Diff",
    "EngineUse",
    "LineTime",
    "Summary",
    "advise",
    "compare",
    "html",
    "load",
    "report_of",
    "summarize",
    "summary_of",
    "time_by_line",
    "write_page",
    "write_report",
    "write_traces",
]

_MODULES: Final = {
    "analysis.advice": ("Advice", "advise"),
    "analysis.diff": ("Diff", "compare"),
    "analysis.summary": ("EngineUse", "Summary", "summarize"),
    "formats.stored": ("load", "report_of", "summary_of"),
    "measures.lines": ("LineTime", "time_by_line"),
    "report": ("write_page", "write_report", "write_traces"),
    "report_page.html": ("html",),
}
"""The names of each module, loaded when one is asked for: units and rates need no pages."""
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
