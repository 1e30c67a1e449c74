"""Memory as a tree: the host's by category, each device's by core and category.

Each report gives a new tree. Open nodes and the cursor are kept by their path of names, so they
stay while programs come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from trnsim.tools.top.view import TabFigures

HOST_NAMES: Final = {
    "tensors": "Tensors",
    "constants": "Constants",
    "dma_buffers": "DMA Buffers",
    "application_memory": "App. Memory",
}
DEVICE_NAMES: Final = {
    "tensors": "Tensors",
    "constants": "Constants",
    "model_code": "Model Code",
    "runtime_memory": "Runtime Memory",
    "model_shared_scratchpad": "Model Scratchpad",
}
"""Categories of neuron-monitor as neuron-top calls them, in its order."""

Path = tuple[str, ...]


@dataclass(frozen=True)
class TreeNode:
    """A node of the tree; its bytes are the sum of its children's, if it has any."""

    name: str
    device_bytes: int = 0
    host_bytes: int = 0
    children: tuple[TreeNode, ...] = ()


@dataclass(frozen=True)
class TreeRow:
    """A visible line of the tree.

    Attributes:
        path: the names of the node's ancestors, then its own.
        is_open: None for a node without children.
    """

    path: Path
    node: TreeNode
    is_open: bool | None


def tree(figures: TabFigures, cores_per_device: int) -> tuple[TreeNode, ...]:
    """The host, then each device that has a core in use."""
    host = tuple(
        TreeNode(label, host_bytes=figures.host_bytes.get(name, 0))
        for name, label in HOST_NAMES.items()
    )
    devices: dict[int, list[TreeNode]] = {}
    for core, bytes_by_category in figures.core_bytes.items():
        device, index = divmod(core, cores_per_device)
        leaves = tuple(
            TreeNode(label, bytes_by_category.get(name, 0)) for name, label in DEVICE_NAMES.items()
        )
        devices.setdefault(device, []).append(_parent(f"NC {index}", leaves))
    return (
        _parent("Host", host),
        *(_parent(f"ND {device}", nodes) for device, nodes in devices.items()),
    )


def _parent(name: str, children: Sequence[TreeNode]) -> TreeNode:
    """A node with the bytes of its children together."""
    return TreeNode(
        name,
        sum(child.device_bytes for child in children),
        sum(child.host_bytes for child in children),
        tuple(children),
    )


@dataclass
class TreeState:
    """The state of a tree on the screen: its open nodes and its cursor."""

    open_paths: set[Path] = field(default_factory=set[Path])
    cursor: Path = ()
    _line: int = 0

    def rows(self, nodes: Sequence[TreeNode], parent_path: Path = ()) -> list[TreeRow]:
        """The visible lines."""
        lines: list[TreeRow] = []
        for node in nodes:
            path = (*parent_path, node.name)
            is_open = path in self.open_paths if node.children else None
            lines.append(TreeRow(path, node, is_open))
            if is_open:
                lines += self.rows(node.children, path)
        return lines

    def cursor_line(self, nodes: Sequence[TreeNode]) -> int:
        """The index of the cursor's line; if its node is gone, of the line now at that index."""
        rows = self.rows(nodes)
        paths = [row.path for row in rows]
        if self.cursor in paths:
            self._line = paths.index(self.cursor)
        else:
            self._line = min(self._line, len(rows) - 1)
            self.cursor = paths[self._line]
        return self._line

    def move(self, nodes: Sequence[TreeNode], lines: int) -> None:
        """Move the cursor `lines` down, no further than the last line."""
        rows = self.rows(nodes)
        self._line = min(max(self.cursor_line(nodes) + lines, 0), len(rows) - 1)
        self.cursor = rows[self._line].path

    def toggle(self, nodes: Sequence[TreeNode]) -> None:
        """Open or close the line at the cursor."""
        row = self.rows(nodes)[self.cursor_line(nodes)]
        if row.is_open is not None:
            self.open_paths ^= {row.path}

    def step_in(self, nodes: Sequence[TreeNode]) -> None:
        """Open the line at the cursor, or go to its first child."""
        row = self.rows(nodes)[self.cursor_line(nodes)]
        if row.is_open:
            self.move(nodes, 1)
        elif row.is_open is False:
            self.open_paths.add(row.path)

    def step_out(self, nodes: Sequence[TreeNode]) -> None:
        """Close the line at the cursor, or go to its parent."""
        row = self.rows(nodes)[self.cursor_line(nodes)]
        if row.is_open:
            self.open_paths.discard(row.path)
        elif len(row.path) > 1:
            self.cursor = row.path[:-1]

    def toggle_all(self, nodes: Sequence[TreeNode]) -> None:
        """Close the whole tree; where nothing is open, open it."""
        top = self.cursor[:1]
        if any(row.is_open for row in self.rows(nodes)):
            self.open_paths.clear()
            self.cursor = top
        else:
            self.open_paths = {
                path
                for node in nodes
                for path in [(node.name,), *((node.name, child.name) for child in node.children
                                            if child.children)]
            }  # fmt: skip
