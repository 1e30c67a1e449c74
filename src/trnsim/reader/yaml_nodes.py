"""The nodes of a YAML text, with their lines: from libyaml's events, or PyYAML's own composer.

PyYAML's wheels hold libyaml, which reads several times as fast. Its composer calls itself for each
level, in C, and a text of ten thousand brackets ends the process. So its events are put together
here, without recursion. PyYAML composes a text in Python if libyaml refuses it, so that errors are
PyYAML's; if it has a tab, which libyaml takes for a space and PyYAML refuses; if a byte order mark
begins a later line, which libyaml leaves out and PyYAML takes for text; and if brackets are nested
deeply, as libyaml's time grows with the square of their depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from trnsim.reader.parsed import Malformed

_TAGS: Final[dict[type[yaml.Node], str]] = {
    kind: f"tag:yaml.org,2002:{name}"
    for kind, name in (
        (yaml.ScalarNode, "str"),
        (yaml.SequenceNode, "seq"),
        (yaml.MappingNode, "map"),
    )
}
"""The tags that PyYAML's BaseLoader gives to nodes without a tag."""
_DEEPEST: Final = 500
"""Levels of a list in brackets; PyYAML refuses more, by Python's default limit of recursion."""
_MOST_NODES: Final = 1_000_000
"""Names and values of a text: libyaml's take some ten seconds, and 400 MB."""


def compose_documents(text: str, *, is_single: bool = False) -> list[yaml.Node]:
    """The documents of a text as nodes.

    Args:
        text: the text.
        is_single: True if it may hold only one document.

    Raises:
        yaml.YAMLError: the text is no YAML, or holds several documents with `is_single`.
        RecursionError: it is nested too deeply.
        Malformed: it has more than 1,000,000 names and values.
    """
    loader = getattr(yaml, "CBaseLoader", None)
    if loader is not None and "\t" not in text and "\ufeff" not in text[1:]:
        try:
            nodes = list(_documents(_limited_events(yaml.parse(text, Loader=loader))))
        except (yaml.YAMLError, ValueError):
            nodes = []  # PyYAML says why, in the same words on every machine
        if nodes and not (is_single and len(nodes) > 1):
            return nodes
    if is_single:
        node = yaml.compose(text, Loader=_CountingLoader)
        return [] if node is None else [node]
    return list(yaml.compose_all(text, Loader=_CountingLoader))


class _CountingLoader(yaml.BaseLoader):
    """PyYAML's loader of text, which refuses more than `_MOST_NODES` nodes."""

    count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.count += 1
        if self.count > _MOST_NODES:
            raise _too_many(self.get_mark())
        return super().compose_node(parent, index)


def _limited_events(events: Iterable[Any]) -> Iterator[Any]:
    """The same events, one by one.

    Raises:
        Malformed: more than `_MOST_NODES` of them begin nodes.
    """
    count = 0
    for event in events:
        count += isinstance(event, yaml.NodeEvent)
        if count > _MOST_NODES:
            raise _too_many(event.start_mark)
        yield event


def _too_many(mark: Any) -> Malformed:
    """The error of a text with more than `_MOST_NODES` nodes, the last of which is at `mark`."""
    why = f"more than {_MOST_NODES:,} names and values"
    return Malformed(mark.line + 1, why, "divide the file, or write it as JSON")


def _documents(events: Iterable[yaml.Event]) -> Iterator[yaml.Node]:
    """The root of each document.

    Raises:
        yaml.YAMLError: the text is no YAML.
        ValueError: an anchor is named twice, an alias names none, or nodes are nested too deeply.
    """
    anchors: dict[str, yaml.Node] = {}
    open_nodes: list[yaml.Node] = []
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            anchors = {}
        elif isinstance(event, yaml.CollectionEndEvent):
            node = open_nodes.pop()
            node.end_mark = event.end_mark
            if not open_nodes:
                yield node
        elif isinstance(event, yaml.NodeEvent):
            node = _node(event, anchors)
            if open_nodes:
                _add(open_nodes[-1], node)
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append(node)
                if event.flow_style and len(open_nodes) > _DEEPEST:
                    raise ValueError(_DEEPEST)
            elif not open_nodes:
                yield node


def _node(event: Any, anchors: dict[str, yaml.Node]) -> yaml.Node:
    """The node that an event begins; for an alias the node that it names."""
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise ValueError(event.anchor)
        return anchors[event.anchor]
    place = (event.start_mark, event.end_mark)
    node: yaml.Node
    if isinstance(event, yaml.ScalarEvent):
        tag = _tag(event, yaml.ScalarNode)
        node = yaml.ScalarNode(tag, event.value, *place, style=event.style or None)
    else:
        is_list = isinstance(event, yaml.SequenceStartEvent)
        kind = yaml.SequenceNode if is_list else yaml.MappingNode
        node = kind(_tag(event, kind), [], *place, flow_style=event.flow_style)
    if event.anchor is not None:
        if event.anchor in anchors:
            raise ValueError(event.anchor)
        anchors[event.anchor] = node
    return node


def _tag(event: Any, kind: type[yaml.Node]) -> str:
    return _TAGS[kind] if event.tag in (None, "!") else str(event.tag)


def _add(parent: yaml.Node, node: yaml.Node) -> None:
    """Add a node to the list or mapping `parent`, as the value of a pair that lacks its value."""
    if isinstance(parent, yaml.SequenceNode):
        parent.value.append(node)
    elif parent.value and len(parent.value[-1]) == 1:
        parent.value[-1] = (*parent.value[-1], node)
    else:
        parent.value.append((node,))
