import pytest

from trnsim.lsp.hover import hover_text, instruction_at

IMPORT = "import nki.isa as nisa\n"
CALL = "    nisa.nc_matmul(dst, nisa.x)"


@pytest.mark.parametrize(
    ("column", "name"), [(3, None), (4, "nc_matmul"), (18, "nc_matmul"), (19, None), (25, "x")]
)
def test_the_name_around_the_cursor(column, name):
    assert instruction_at(IMPORT + "def half(:\n", CALL, column) == name


@pytest.mark.parametrize(
    ("source", "line", "name"),
    [
        ("from nki import isa", "isa.memset(x)", "memset"),
        ("from nki import isa as i", "i.memset(x)", "memset"),
        ("import neuronxcc.nki.isa as old", "old.memset(x)", "memset"),
        ("from nki import language as nl, isa as i", "i.memset(x)", "memset"),
        ("from nki import (\n    language,\n    isa as i,\n)", "i.memset(x)", "memset"),
        ("import nki.language as nl, nki.isa as i", "i.memset(x)", "memset"),
        ("import neuronxcc.nki.isa", "neuronxcc.nki.isa.memset(x)", "memset"),
        ("import nki", "nki.isa.memset(x)", "memset"),
        ("import nki", "nisa.memset(x)", None),
        ("from nki import isa", "self.isa.memset(x)", None),
        ("", "", None),
    ],
)
def test_names_of_the_module_are_read_from_the_imports(source, line, name):
    assert instruction_at(source, line, line.find("memset")) == name


def test_an_instruction_in_a_few_lines():
    page = "# memset\n\n## Cost\n\nA cycle\nan element.\n\n## Source\n"
    values = {"schema": "explain-instruction/1", "call": "nisa.memset(dst)", "values": "`dst = v`"}
    text = hover_text({**values, "page": page, "source": "nki.isa.memset"})
    assert text == (
        "```python\nnisa.memset(dst)\n```\n\n`dst = v`\n\nCost: A cycle\nan element.\n\n"
        "Source: nki.isa.memset"
    )
    assert "Cost" not in hover_text({**values, "page": "", "source": "s"})


def test_what_is_no_instruction_has_no_text():
    assert hover_text({"schema": "chips/1"}) is None
