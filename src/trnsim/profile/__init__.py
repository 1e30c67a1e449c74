"""Timeline -> summary, advice, reports: pages, tables, traces, comparisons.

Reads timelines; places nothing on them. What it says are estimates, with the facts they rest on.
"""

from trnsim.profile.advice import Advice, advise
from trnsim.profile.diff import Diff, compare
from trnsim.profile.lines import LineTime, time_by_line
from trnsim.profile.page import html
from trnsim.profile.report import write_page, write_report, write_traces
from trnsim.profile.stored import load, report_of, summary_of
from trnsim.profile.summary import EngineUse, Summary, summarize

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
