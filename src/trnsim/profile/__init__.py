"""Timeline -> summary, advice, HTML page.

Reads timelines; places nothing on them. What it says are estimates, with the facts they rest on.
"""

from trnsim.profile.advice import Advice, advise
from trnsim.profile.lines import LineTime, time_by_line
from trnsim.profile.page import html
from trnsim.profile.report import write, write_report
from trnsim.profile.summary import EngineUse, Summary, summarize

__all__ = [
    "Advice",
    "EngineUse",
    "LineTime",
    "Summary",
    "advise",
    "html",
    "summarize",
    "time_by_line",
    "write",
    "write_report",
]
