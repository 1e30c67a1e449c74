"""The sections of neuron-top as lines of a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.text import Text

from trnsim.tools.top.tree import DEVICE_NAMES, HOST_NAMES, TreeRow
from trnsim.tools.top.view import ReportInstance, Tab, TabFigures

BAND: Final = "black on cyan"
_BUSY_STYLE: Final = "green"
_SYSTEM_STYLE: Final = "red"
_FIGURE_STYLE: Final = "bold green"
_CHOSEN_STYLE: Final = "bold green on black"
_LEAST_CELL: Final = 4
"""Width of a cell with three digits and a space; the title has the unit."""
_LEAST_BAR: Final = 8
"""Width of a cell that has room for a bar too."""
_LABEL_CHARS: Final = 5
_TERA: Final = 1e12
_BYTES_STEP: Final = 1024
_DETAIL_HEADINGS: Final = ("Model ID", "Device Memory", "Host Memory")
_COLUMN_CHARS: Final = 15
_INDENT_CHARS: Final = 4
_NAME_CHARS: Final = 18
_VCPU_NAMES: Final = ("System vCPU Usage", "Runtime vCPU Usage")


def bytes_text(count: float) -> str:
    """Bytes with one decimal in the largest unit that they reach: "1.7GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(count, 1) < _BYTES_STEP:
            return f"{count:.1f}{unit}"
        count /= _BYTES_STEP
    return f"{count:.1f}TiB"


def band(text: str, width: int) -> Text:
    """The title of a section, across the full width."""
    return Text(text[:width].ljust(width), BAND)


def title(version: str, host: ReportInstance, width: int) -> Text:
    """The line at the top."""
    text = f"neuron-top {version} running on {host.number} ({host.name}), emulated"
    if len(text) > width:
        text = f"neuron-top, emulated {host.name}"
    return Text(text[:width].center(width), BAND)


def devices_per_row(host: ReportInstance, width: int, most_rows: int) -> int:
    """The smallest number of devices per line for which `most_rows` lines suffice.

    If no number that fits into `width` suffices, the largest that fits.
    """
    legal_counts = [
        count for count in range(1, host.devices + 1)
        if _cell_width(host, width, count) >= _LEAST_CELL
    ]  # fmt: skip
    short_counts = [count for count in legal_counts if -(-host.devices // count) <= most_rows]
    return short_counts[0] if short_counts else max(legal_counts, default=1)


def _cell_width(host: ReportInstance, width: int, per_row: int) -> int:
    return (width // per_row - _LABEL_CHARS) // host.cores_per_device


def cores(
    figures: TabFigures, host: ReportInstance, width: int, most_rows: int, *, in_flops: bool
) -> list[Text]:
    """The section of the cores: its title, the numbers of cores, and lines of devices."""
    count = host.devices * host.cores_per_device
    if in_flops:
        tera = sum(figures.flop_per_s.values()) / _TERA
        text = f"NeuronCore {host.core_version} (Sum: {tera:.2f} TFLOPS)"
    else:
        mean = sum(figures.percent.values()) / count
        text = f"NeuronCore {host.core_version} Utilization (Avg: {mean:.2f}%)"
    per_row = devices_per_row(host, width, most_rows)
    cell_width = _cell_width(host, width, per_row)
    heads = "".join(f"NC{index}".center(cell_width) for index in range(host.cores_per_device))
    lines = [band(text, width), Text((" " * _LABEL_CHARS + heads) * min(per_row, host.devices))]
    for first in range(0, host.devices, per_row):
        line = Text()
        for device in range(first, min(first + per_row, host.devices)):
            line.append(f"ND{device}".ljust(_LABEL_CHARS))
            for index in range(host.cores_per_device):
                core = device * host.cores_per_device + index
                value = figures.flop_per_s.get(core, 0.0) if in_flops else None
                line.append_text(_cell(figures.percent.get(core, 0.0), value, cell_width))
        lines.append(line)
    return lines


def _cell(percent: float, flop_per_s: float | None, width: int) -> Text:
    """A bar with its figure at its end, or the figure alone where a bar has no room."""
    if flop_per_s is None:
        value, unit = percent, "%"
    else:
        value, unit = flop_per_s / _TERA, "T"
    if width < _LEAST_BAR:
        return Text(f"{value:.0f} ".rjust(width), _BUSY_STYLE if percent else "")
    bar_chars = width - 3
    figure = f"{value:.2f}{unit}"
    if len(figure) > bar_chars // 2:
        figure = f"{value:.0f}{unit}"
    return _bar([(percent, _BUSY_STYLE)], figure, bar_chars).append(" ")


def _bar(parts: Sequence[tuple[float, str]], figure: str, bar_chars: int) -> Text:
    """``[||||    12%]``: a bar of `inner` characters whose `parts` are (per cent, style)."""
    line = Text("[")
    chars, position, percent = bar_chars - len(figure), 0, 0.0
    for part, style in parts:
        percent += part
        end = min(round(chars * percent / 100), chars)
        line.append("|" * (end - position), style)
        position = end
    return line.append(" " * (chars - position) + figure + "]")


def vcpus(figures: TabFigures, width: int) -> list[Text]:
    """The lines of the vCPUs: user's and system's part."""
    name_width = max(map(len, _VCPU_NAMES)) + 1
    lines: list[Text] = []
    for name, usage in zip(_VCPU_NAMES, (figures.system, figures.runtime), strict=True):
        parts = [(usage.user, _BUSY_STYLE), (usage.system, _SYSTEM_STYLE)]
        figure = f" {usage.user:5.2f}%, {usage.system:5.2f}%"
        bar = _bar(parts, figure, width - name_width - 2)
        if usage.error:
            bar = Text(usage.error[: width - name_width], "yellow")
        lines.append(Text(name.ljust(name_width)).append_text(bar))
    return lines


def memory(figures: TabFigures, width: int, *, is_whole: bool = True) -> list[Text]:
    """The summary of host and device memory; without `is_whole`, only the first line of each."""
    host = {"Total": figures.host_total_bytes} | {
        label: figures.host_bytes.get(name, 0) for name, label in HOST_NAMES.items()
    }
    device = {"Total": figures.device_total_bytes} | {
        label: figures.device_bytes(name) for name, label in DEVICE_NAMES.items()
    }
    line_count = None if is_whole else 1
    return [
        *_fields("Host Used Memory", host, width)[:line_count],
        *_fields("Device Used Memory", device, width)[:line_count],
    ]


def _fields(name: str, values: Mapping[str, int], width: int) -> list[Text]:
    line = Text(name.ljust(_NAME_CHARS))
    lines = [line]
    for label, count in values.items():
        cell = Text(f" {label}: ").append(bytes_text(count), _FIGURE_STYLE)
        if line.cell_len + cell.cell_len + 1 > width and line.cell_len > _NAME_CHARS:
            line = Text(" " * _NAME_CHARS)
            lines.append(line)
        line.append(" " if line.cell_len > _NAME_CHARS else "").append_text(cell)
    return lines


def details_head(width: int) -> Text:
    """The title of the tree with the names of its columns."""
    columns = "".join(column.rjust(_COLUMN_CHARS) for column in _DETAIL_HEADINGS)
    name_chars = max(width - len(columns), 0)
    return band("Memory Usage Details"[:name_chars].ljust(name_chars) + columns, width)


def details(rows: Sequence[TreeRow], cursor: int, width: int, height: int) -> list[Text]:
    """The visible lines of the tree: `height` of them around the cursor."""
    first = min(max(cursor - height // 2, 0), max(len(rows) - height, 0))
    return [
        _detail(row, width, is_chosen=first + index == cursor)
        for index, row in enumerate(rows[first : first + height])
    ]


def _detail(row: TreeRow, width: int, *, is_chosen: bool) -> Text:
    mark = {None: "   ", True: "[-]", False: "[+]"}[row.is_open]
    name = " " * _INDENT_CHARS * (len(row.path) - 1) + f"{mark} {row.node.name}"
    columns = "".join(
        cell.rjust(_COLUMN_CHARS)
        for cell in ("", bytes_text(row.node.device_bytes), bytes_text(row.node.host_bytes))
    )
    name_chars = max(width - len(columns), 0)
    text = name[:name_chars].ljust(name_chars) + columns
    return Text(text[:width], "reverse" if is_chosen else "")


def tab_bar(programs: Sequence[Tab], chosen: Tab, width: int) -> Text:
    """The tabs; the chosen one is visible however many there are."""
    labels = [f"[{number}]:{tab.name}" for number, tab in enumerate(programs, 1)]
    chosen_index = programs.index(chosen)
    labels[chosen_index] = f">{labels[chosen_index]}<"
    first = chosen_index
    free_chars = width - len("Neuron Apps ") - len(labels[chosen_index]) - 2
    while first > 0 and len(labels[first - 1]) + 2 <= free_chars:
        first -= 1
        free_chars -= len(labels[first]) + 2
    line = Text("Neuron Apps ", BAND)
    for index in range(first, len(labels)):
        line.append(labels[index], _CHOSEN_STYLE if index == chosen_index else BAND).append(
            "  ", BAND
        )
    line.truncate(width)
    line.append(" " * max(width - line.cell_len, 0), BAND)
    return line


def keys(width: int) -> Text:
    """The keys and their actions, as many as fit."""
    hints = (
        "q: quit", "a/d, 1-9: tab", "f: FLOPS", "arrows: move", "enter: open", "x: open all",
    )  # fmt: skip
    return band(_fitting_text(hints, width), width)


def _fitting_text(parts: Iterable[str], width: int) -> str:
    line = ""
    for part in parts:
        longer_line = f"{line}  {part}" if line else part
        if len(longer_line) > width:
            break
        line = longer_line
    return line
