import pytest

from trnsim.jobs.formats import shell
from trnsim.jobs.formats.shell import is_redirection, statements, tokens
from trnsim.reader.parsed import Malformed


def raw_words(text):
    return [word.raw for word in tokens(text) if not is_redirection(word)]


def test_quotes_comments_and_continued_lines_are_told_apart():
    assert raw_words("a 'b c' \"d 'e\" f\\ g \\\n h # i") == ["a", "b c", "d 'e", "f g", "h"]
    assert raw_words("a#b '#c'") == ["a#b", "#c"]
    assert raw_words("x;y&&z||w|v&") == ["x", ";", "y", "&&", "z", "||", "w", "|", "v", "&"]


def test_substitutions_are_parts_of_words():
    assert raw_words('a=$(echo \')\' # (\n) b ${c:-d e} `f g` "$(h "i j")"') == [
        "a=$(echo ')' # (\n)",
        "b",
        "${c:-d e}",
        "`f g`",
        '$(h "i j")',
    ]
    assert raw_words("diff <(sort a) b") == ["diff", "<(sort a)", "b"]


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_a_long_word_takes_no_longer_than_its_characters(quote):
    text = "ab" * 500_000  # of which adding one by one would take minutes
    (word,) = tokens(f"{quote}{text}{quote}")
    assert word.raw == text


@pytest.mark.parametrize("depth", [11, 3000])
def test_arrays_in_one_another_end_somewhere(depth):
    (word, *_) = tokens("a=(" * 11 + ")" * 11)
    assert word.items
    with pytest.raises(Malformed, match="more than 10 nested arrays"):
        list(tokens("a=(" * (depth + 1) + ")" * (depth + 1)))


def test_an_array_has_words_of_its_own():
    (array, *_) = tokens("declare_=1 A=( b 'c d' # e\n f )")
    assert array.items is None
    *_, array = tokens("A=( b 'c d' # e\n f )")
    assert [word.raw for word in array.items] == ["b", "c d", "f"]
    assert array.raw == "A="


def test_redirections_are_no_words_of_the_program():
    assert raw_words("a > b 2>&1 c >> d &> e < f <<< g") == ["a", "c"]
    assert raw_words("a 2 > b") == ["a", "2"]


@pytest.mark.parametrize("end", ["END", "'END'", '"END"'])
def test_here_documents_are_left_alone(end):
    first, second = statements(f"cat > a <<{end}\nb ' \" (\nEND\nc d")
    assert first.text == f"cat > a <<{end}\nb ' \" (\nEND"
    assert (second.line, second.text) == (4, "c d")
    (first, second) = statements("cat <<-E\n\tx\n\tE\nb")
    assert second.text == "b"


def test_statements_end_at_lines_semicolons_and_ampersands():
    found = statements("a b; c &\n\nd |\n e\nf && \\\n g")
    assert [(one.line, one.text, one.is_block) for one in found] == [
        (1, "a b", False),
        (1, "c &", False),
        (3, "d |\n e", False),
        (5, "f && \\\n g", False),
    ]
    assert [(command.before, command.words[0].raw) for command in found[3].commands] == [
        ("", "f"),
        ("&&", "g"),
    ]


@pytest.mark.parametrize(
    "block",
    [
        "if a; then\n b=1\nelif c; then d; else e; fi",
        "for i in 1 2; do\n if a; then b; fi\ndone",
        "while read -r a; do b; done < c",
        "for ((i=1; i<2; i++)); do a; done",
        "case $a in\n b) c ;;\n *) d;;\nesac",
        "function a() {\n b\n}",
        "a() { b; }",
        "( cd a\n b )",
    ],
)
def test_a_block_is_one_statement(block):
    first, second = statements(f"{block}\nafter x")
    assert (first.text, first.is_block) == (block, True)
    assert (second.text, second.is_block) == ("after x", False)
    assert second.line == block.count("\n") + 2


@pytest.mark.parametrize("text", ["a\nb 'c", 'a\n"b', "a\n$(b", "a\n${b", "a\n`b", "a\nA=( b"])
def test_what_is_not_closed_is_refused_at_its_line(text):
    with pytest.raises(Malformed) as error:
        statements(text)
    assert error.value.line == 2
    assert "not closed" in error.value.why


@pytest.mark.parametrize("text", ["", "fi", ")", "}", "done; esac", "a ) b", "&& a", "| |", ";;"])
def test_odd_scripts_have_statements_all_the_same(text):
    statements(text)


def test_a_script_has_not_too_many_words(monkeypatch):
    monkeypatch.setattr(shell, "_MOST_TOKENS", 10)
    statements("a " * 9)
    with pytest.raises(Malformed, match="more than 10 words"):
        statements("a " * 11)
