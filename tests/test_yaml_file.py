import re

import pytest

from trnsim.errors import BadInput, SourceLine
from trnsim.yaml_file import read


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "a.yaml"
        path.write_bytes(text.encode())
        return path

    return write


def plain(value):
    if isinstance(value.content, dict):
        return {key: plain(one) for key, one in value.content.items()}
    if isinstance(value.content, tuple):
        return [plain(one) for one in value.content]
    return value.content


def test_values_are_text_and_know_their_lines(written):
    path = written("a: 1e9\nb:\n  - no\n  - c: '~'\n    d: ~\n")
    found = read(path)
    assert plain(found) == {"a": "1e9", "b": ["no", {"c": "~", "d": ""}]}
    assert found.content["b"].line == SourceLine(str(path), 2)
    assert found.content["b"].content[1].content["d"].line == SourceLine(str(path), 5)


def test_an_alias_is_what_it_names(written):
    assert plain(read(written("a: &x [1]\nb: *x\n"))) == {"a": ["1"], "b": ["1"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: [1\n", ":3: no YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n\tb: 2\n", ":2: no YAML: found character '\\t' that cannot start any token"),
        ("a: *x\n", ":1: no YAML: found undefined alias 'x'"),
        ("a: 1\n---\nb: 2\n", ":2: no YAML: but found another document"),
        ("a: 1\nb: 2\na: 3\n", ":3: a is given twice, first in line 1"),
        ("a: 1\n[b]: 2\n", ":2: a key is text, not a list or a mapping"),
        ("a: \x00\n", ":1: no YAML: unacceptable character #x0000: special characters are not"),
        ("", " is empty"),
        ("# nothing\n", " is empty"),
        ("[" * 2000, ":1: no YAML: "),
        ("&a [*a]", ":1: no YAML: nested too deeply, or within itself"),
    ],
)
def test_what_is_no_yaml_is_named_with_its_line(written, text, said):
    path = written(text)
    with pytest.raises(BadInput, match="^" + re.escape(f"{path}{said}")) as refused:
        read(path, fix="give a file")
    assert refused.value.fix == "give a file"


def test_no_tag_makes_an_object(written):
    assert plain(read(written("a: !!python/object/apply:os.getcwd []\n"))) == {"a": []}


def test_anchors_that_multiply_are_refused(tmp_path):
    path = tmp_path / "bomb.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    path.write_text("\n".join(lines))
    with pytest.raises(BadInput, match=r"bomb\.yaml:\d+: more than 50,000 values; anchors that"):
        read(path)


def test_an_anchor_may_be_repeated(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("a: &a [x]\nb: *a\n")
    assert read(path).content["b"].content == read(path).content["a"].content
