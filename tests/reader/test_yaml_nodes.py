import random
from pathlib import Path

import pytest
import yaml

from trnsim.reader import yaml_nodes
from trnsim.reader.parsed import Malformed
from trnsim.reader.yaml_nodes import compose_documents

ROOT = Path(__file__).parents[2]
SPECS = [
    *sorted((ROOT / "tests" / "jobs" / "formats" / "specs").glob("*.yaml")),
    *sorted((ROOT / "examples" / "jobs").glob("*.yaml")),
]
MARKS = [*list(":,[]{}#&*!|>'\"%@`-? \n\\~=<."), "- ", ": ", "&a ", "*a ", "!x ", "---\n", "\x07"]
ANCHORS = "a: &x {b: [1, *y]}\nc: *x\n"


def flat(node):
    """A node with its tag, style and line, and those within it."""
    head = (type(node).__name__, node.tag, node.start_mark.line)
    if isinstance(node, yaml.ScalarNode):
        return (*head, node.style, node.value)
    items = (
        node.value
        if isinstance(node, yaml.SequenceNode)
        else [n for pair in node.value for n in pair]
    )
    return (*head, [flat(item) for item in items])


def said(compose, text):
    """The nodes of a text, or what is wrong with it."""
    try:
        return [flat(node) for node in compose(text)]
    except (yaml.YAMLError, RecursionError) as error:
        return type(error).__name__, str(error).partition("\n")[0]


def python(text):
    return list(yaml.compose_all(text, Loader=yaml.BaseLoader))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_nodes_are_those_of_pyyaml(path):
    text = path.read_text(encoding="utf-8")
    assert said(compose_documents, text) == said(python, text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "# a\n", "a", "- a\n- \n", "a:\n", "{a: , b}", "!x {a: !y 1}", "'a'", '"a\\n"'),
        *(
            "a: |\n  b\n",
            "--- a\n--- b\n",
            "a: &x 1\n---\nb: *x\n",
            "a: &x 1\n---\nb: &x 2\n",
            "...\n",
            "? a\n: b\n",
            "? [a]\n: b\n",
            "! a",
        ),
        *("a: &x 1\nb: *x\n", "a: *x\n", "&x [*x]", "&x a: &x b\n", "a:\n\t- b\n", "a\tb: c"),
        *("[", "{a", "'", "a: b: c", "\x07", "%YAML 1.1\n--- a\n", "\ufeffa: b", ANCHORS),
        *("a: 1\n\ufeff", "a: 1\n\ufeffb: 2\n", "- a\n- |\n b\n\ufeff", "# a\n\ufeff'b'"),
    ],
)
def test_texts_are_taken_and_refused_as_pyyaml_does(text):
    assert said(compose_documents, text) == said(python, text)


@pytest.mark.parametrize("text", ["[" * 20_000, "- " * 20_000, "{a: " * 20_000, "? " * 20_000])
def test_a_text_of_brackets_is_an_error_and_not_the_end_of_the_process(text):
    if text[0] in "[{":
        with pytest.raises((yaml.YAMLError, RecursionError)):
            compose_documents(text)
    else:
        assert len(compose_documents(text)) == 1


def test_libyaml_reads_no_more_brackets_than_pyyaml_may(monkeypatch):
    """Of a hundred thousand its scanner would take a minute."""
    events = []
    parse = yaml.parse
    monkeypatch.setattr(
        yaml, "parse", lambda *a, **k: (events.append(each) or each for each in parse(*a, **k))
    )
    monkeypatch.setattr(yaml, "compose_all", lambda *_, **__: ["PyYAML's"])
    assert compose_documents("[" * 2_000) == ["PyYAML's"]
    assert len(events) < 600
    assert compose_documents("[" * 300 + "]" * 300) != ["PyYAML's"]


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "a\n--- b\n"])
def test_a_second_document_is_refused_where_one_is_read(text):
    with pytest.raises(yaml.MarkedYAMLError, match="expected a single document"):
        compose_documents(text, is_single=True)
    assert compose_documents("", is_single=True) == []
    assert len(compose_documents(text)) == 2


def changed(text, chosen):
    """A text with characters inserted, left out or repeated."""
    for _ in range(chosen.choice((1, 1, 2, 3))):
        at = chosen.randrange(len(text) + 1)
        kept = (text[at:], text[at + chosen.randrange(4) :], text[at : at + 9] + text[at:])
        text = text[:at] + chosen.choice(["", chosen.choice(MARKS)]) + chosen.choice(kept)
    return text


@pytest.mark.slow
def test_changed_texts_have_the_same_values_or_are_refused_alike():
    """libyaml takes one in some thousand texts that PyYAML refuses, and no other values."""
    chosen, taken = random.Random(0), 0  # noqa: S311  a sequence of tests
    texts = [path.read_text(encoding="utf-8")[:1500] for path in SPECS]
    for _ in range(3000):
        text = changed(chosen.choice(texts), chosen)
        ours, theirs = said(compose_documents, text), said(python, text)
        if isinstance(theirs, tuple) and not isinstance(ours, tuple):
            taken += 1
        elif isinstance(ours, list):
            assert values(ours) == values(theirs)
        else:
            assert ours == theirs
    assert taken <= 10


def values(nodes):
    """Nodes without their lines: an empty value has that of what precedes it, or what follows."""
    return [
        (*node[:2], *(values(part) if isinstance(part, list) else part for part in node[3:]))
        for node in nodes
    ]


@pytest.mark.parametrize("text", ["a: 1\nb:\n- 2\n- 3\n", 'a: 1\nb:\n- "\t"\n- 3\n'])
def test_names_and_values_are_counted_by_both_composers(monkeypatch, text):
    monkeypatch.setattr(yaml_nodes, "_MOST_NODES", 7)
    assert compose_documents(text)
    monkeypatch.setattr(yaml_nodes, "_MOST_NODES", 6)
    with pytest.raises(Malformed, match="more than 6 names and values") as refused:
        compose_documents(text)
    assert refused.value.line in (4, 5)  # PyYAML reads a line ahead
