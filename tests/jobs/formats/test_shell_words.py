import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.jobs.formats.shell import tokens
from trnsim.jobs.formats.shell_words import (
    expand,
    expand_text,
    is_constant,
    quote,
    quote_words,
)

BASH = shutil.which("bash")
VALUES = {"A": "1", "S": "x  y", "E": "", "U": None, "L": ["p", "q r"], "N": []}


def words(text, values=VALUES):
    return expand(list(tokens(text)), values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A ${A} a$A-b", ["1", "1", "a1-b"]),
        ('$S "$S" a${S}b', ["x", "y", "x  y", "ax", "yb"]),
        ('$E "$E" ""', ["", ""]),
        ('"${L[@]}" ${L[@]} "-${L[@]}"', ["p", "q r", "p", "q r", "-p q r"]),
        ('"${N[@]}" $L', ["p"]),
        ("$U ${U} ${U:-2} ${NO:=3}", ["$U", "${U}", "${U:-2}", "${NO:=3}"]),
        ("${A:-2} ${E:-2} ${A%x}", ["1", "${E:-2}", "${A%x}"]),
        ("$1 $@ $? $#", ["${1}", "${@}", "${?}", "${#}"]),
        ("$(a b) `c d` $((1 + 2)) \"$(e '$A')\"", ["$(a b)", "`c d`", "$((1 + 2))", "$(e '$A')"]),
        (r"'$A' \$A '$5' \\ '`a`'", [r"\$A", r"\$A", "$5", "\\", r"\`a\`"]),
        ("bash -c 'echo $A ${B}' $A", ["bash", "-c", "echo $A ${B}", "1"]),
        ('/bin/sh -lc "echo \\$B $A"', ["/bin/sh", "-lc", "echo $B 1"]),
        ("python -c 'a $B'", ["python", "-c", r"a \$B"]),
        ("~/a b~ '~'", ["$HOME/a", "b~", "~"]),
        ("$", ["$"]),
    ],
)
def test_constants_are_substituted_and_the_rest_stays(text, expected):
    assert words(text) == expected


def test_an_assigned_text_is_not_divided():
    (word,) = tokens("B=$S:'c $D'")
    assert expand_text(word, VALUES, len("B=")) == r"x  y:c \$D"


@pytest.mark.parametrize(
    ("text", "is_"), [("a", True), (r"\$A", True), ("$5", True), ("$A", False)]
)
def test_a_constant_has_nothing_to_expand(text, is_):
    assert is_constant(text) is is_
    assert not is_constant("`a`")


TEXT = st.text(st.sampled_from(list("ab \"'\\$5*?;&|<>(){}#~!=\n\té-")), max_size=8).filter(
    lambda text: "$(" not in text and "${" not in text
)


@given(st.lists(TEXT, max_size=5))
def test_quoted_words_are_read_as_they_were(texts):
    assert words(" ".join(quote_words(texts)), {}) == texts


PROGRAM = st.sampled_from(["echo $A", "it's", 'a "b" \\ $(c)', ""])


@given(PROGRAM, TEXT)
def test_a_program_for_a_second_shell_is_read_as_it_was(program, text):
    line = ["bash", "-c", program, text]
    assert words(" ".join(quote_words(line)), {}) == line


@pytest.mark.skipif(BASH is None, reason="no bash")
@given(st.lists(TEXT.filter(lambda text: "$a" not in text and "$b" not in text), max_size=4))
def test_a_shell_reads_quoted_words_as_they_are(texts):
    line = " ".join(quote(text) for text in texts)
    script = f'printf "%s\\0" {line}' if texts else "true"
    printed = subprocess.run([BASH, "-c", script], capture_output=True, check=True).stdout
    assert printed.decode().split("\0")[:-1] == texts


def test_an_expansion_stays_one():
    assert quote("$A:${B} $(c d)") == '"$A:${B} $(c d)"'
    assert quote("plain-1.0/x=y") == "plain-1.0/x=y"
    assert quote("") == '""'
    assert quote("$(a") == '"\\$(a"'
