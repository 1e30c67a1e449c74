"""neuron-top in a terminal, through textual (extra `platform`)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from trnsim.errors import BadInput
from trnsim.tools.top import drawing
from trnsim.tools.top.tree import TreeState, tree
from trnsim.tools.top.view import ALL, figures, instance, tabs

PERIOD_S: Final = 2.0
"""Time between two reports. Programs write at most once a second, so each report can be new."""
_TALL_LINES: Final = 32
"""Lines of a terminal from which sections have titles of their own and space between them."""
_LEAST_WHOLE_MEMORY_LINES: Final = 24
"""Lines of a terminal below which the summary of memory has a line each for host and devices."""
_LEAST_TREE: Final = 3
"""Lines that the cores leave to the tree and its title."""
_CORE_HEAD_LINES: Final = 2
"""Lines above the cores: their title and their numbers."""
_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP")
_KEYS: Final = {
    "q,Q,ctrl+c,ctrl+q": "quit",
    "f,F": "flops",
    "a,A": "next_tab(-1)",
    "d,D": "next_tab(1)",
    **{str(number): f"choose({number})" for number in range(1, 10)},
    "up": "move(-1)",
    "down": "move(1)",
    "pageup": "move(-10)",
    "pagedown": "move(10)",
    "left": "step_out",
    "right": "step_in",
    "enter,space": "fold",
    "x,X": "toggle_everything",
}


class Page(Widget):
    """The widget of the whole screen, drawn anew for its size."""

    DEFAULT_CSS = "Page { width: 1fr; height: 1fr; overflow: hidden; }"

    def __init__(self, lines: Callable[[int, int], list[Text]]) -> None:
        super().__init__()
        self.lines = lines

    def render(self) -> Text:
        """The lines, as many as the screen has."""
        width, height = self.size
        return Text("\n", no_wrap=True, end="").join(self.lines(width, height)[:height])


class Top(App[None]):
    """The screen.

    Args:
        report: function that returns a report of neuron-monitor.
        version: version of trnsim.
    """

    TITLE = "neuron-top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, action, show=False, priority=True) for key, action in _KEYS.items()
    ]

    def __init__(self, report: Callable[[], Mapping[str, Any]], version: str) -> None:
        super().__init__()
        self.report = report
        self.last = report()
        self.version = version
        self.chosen = ALL
        self.in_flops = False
        self.tree_state = TreeState()
        self.failure: BadInput | None = None

    def compose(self) -> ComposeResult:
        """The page, as the only widget."""
        yield Page(self.lines)

    def on_mount(self) -> None:
        """Read reports periodically; signals that end a program act as the key q."""
        self.set_interval(PERIOD_S, self.look)
        loop = asyncio.get_running_loop()
        for name in _SIGNALS:
            with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(getattr(signal, name), self.exit)

    def look(self) -> None:
        """Read and show a report; a program that has ended is no longer shown."""
        try:
            self.last = self.report()
        except BadInput as error:  # the folder of the state was taken away
            self.failure = error
            self.exit()
            return
        if self.chosen not in tabs(self.last):
            self.chosen = ALL
        self.redraw()

    def redraw(self) -> None:
        """Draw the page anew; does nothing while the screen closes and has no page."""
        self.query(Page).refresh()

    def lines(self, width: int, height: int) -> list[Text]:
        """The page for a terminal of this size."""
        host, tab_figures = instance(self.last), figures(self.last, self.chosen)
        is_tall = height >= _TALL_LINES
        space = [Text("")] if is_tall else []
        vcpus = drawing.vcpus(tab_figures, width)
        memory = drawing.memory(tab_figures, width, is_whole=height >= _LEAST_WHOLE_MEMORY_LINES)
        figure_lines: list[Text] = [
            *space,
            *([drawing.band("vCPU Utilization", width)] if is_tall else []),
            *vcpus,
            *space,
            *([drawing.band("Memory Usage Summary", width)] if is_tall else []),
            *memory,
            *space,
        ]
        end = [drawing.tab_bar(tabs(self.last), self.chosen, width), drawing.keys(width)]
        top = [drawing.title(self.version, host, width), *space]
        free_lines = max(height - len(top) - len(figure_lines) - len(end), 0)
        most_cores = max(free_lines - _CORE_HEAD_LINES - _LEAST_TREE, 1)
        cores = drawing.cores(tab_figures, host, width, most_cores, in_flops=self.in_flops)
        tree_lines = max(free_lines - min(len(cores), most_cores + _CORE_HEAD_LINES), 0)
        return [
            *top,
            *_first_lines(cores, most_cores + _CORE_HEAD_LINES, width),
            *figure_lines,
            *self._details(width, tree_lines),
            *end,
        ]

    def _details(self, width: int, height: int) -> list[Text]:
        """The tree in exactly `height` lines."""
        if not height:
            return []
        nodes = self.nodes()
        rows, cursor = self.tree_state.rows(nodes), self.tree_state.cursor_line(nodes)
        lines = [drawing.details_head(width), *drawing.details(rows, cursor, width, height - 1)]
        return lines + [Text("")] * (height - len(lines))

    def nodes(self) -> Any:
        """The tree of the memory of the chosen tab."""
        per_device = instance(self.last).cores_per_device
        return tree(figures(self.last, self.chosen), per_device)

    def action_flops(self) -> None:
        """Operations a second instead of utilisation, or back."""
        self.in_flops = not self.in_flops
        self.redraw()

    def action_next_tab(self, by: int) -> None:
        """Choose the tab `by` places to the right; the first follows the last."""
        programs = tabs(self.last)
        self.chosen = programs[(programs.index(self.chosen) + by) % len(programs)]
        self.redraw()

    def action_choose(self, number: int) -> None:
        """Choose the tab with this number, if there is one."""
        programs = tabs(self.last)
        if number <= len(programs):
            self.chosen = programs[number - 1]
        self.redraw()

    def action_move(self, lines: int) -> None:
        """Move the cursor `lines` down the tree."""
        self.tree_state.move(self.nodes(), lines)
        self.redraw()

    def action_step_in(self) -> None:
        """Open the node at the cursor, or move to its first child."""
        self.tree_state.step_in(self.nodes())
        self.redraw()

    def action_step_out(self) -> None:
        """Close the node at the cursor, or move to its parent."""
        self.tree_state.step_out(self.nodes())
        self.redraw()

    def action_fold(self) -> None:
        """Open or close the node at the cursor."""
        self.tree_state.toggle(self.nodes())
        self.redraw()

    def action_toggle_everything(self) -> None:
        """Open or close the whole tree."""
        self.tree_state.toggle_all(self.nodes())
        self.redraw()


def _first_lines(lines: list[Text], line_limit: int, width: int) -> list[Text]:
    """At most `line_limit` lines; the last tells how many lines of devices do not fit."""
    if len(lines) <= line_limit:
        return lines
    hidden = len(lines) - line_limit + 1
    return [
        *lines[: line_limit - 1],
        Text(f"{hidden} more lines in a taller terminal"[:width], "yellow"),
    ]


def run(report: Callable[[], Mapping[str, Any]], version: str) -> None:
    """Show reports until a key or a signal ends the screen.

    Raises:
        BadInput: the state could not be read any more.
    """
    top = Top(report, version)
    top.run()
    if top.failure is not None:
        raise top.failure
