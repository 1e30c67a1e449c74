"""Timeline -> summary, advice, reports: pages, tables, traces, comparisons.

It reads timelines and never changes them. All figures are estimates, with the facts behind them.
"""

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
