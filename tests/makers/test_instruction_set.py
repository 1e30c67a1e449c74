"""The index of the instruction set and the tables of operators."""

from instruction_set import index_page, operators_page, pages

from trnsim.isa import ACTIVATIONS, ALU, Instruction


def test_there_is_a_page_for_each_instruction_an_index_and_the_operators():
    assert set(pages()) == {
        *(f"{opcode}.md" for opcode in Instruction.registry),
        "index.md",
        "operators.md",
    }


def test_the_index_links_each_instruction_under_its_family_and_its_engines():
    index = index_page()
    families, by_engine = index.split("## By engine")
    for opcode, made in Instruction.registry.items():
        assert families.count(f"[{opcode}]({opcode}.md)") == 1
        assert by_engine.partition("## Approximate")[0].count(f"({opcode}.md)") == len(made.engines)
    assert "## Copies within a NeuronCore: tensor_copy, memset.\n" in index
    assert "| v4   |" in families


def test_what_a_docstring_notes_stands_in_the_index_too():
    open_points = index_page().partition("## Approximate")[2]
    assert "- [activation](activation.md): " in open_points
    assert "reciprocal" not in open_points


def test_every_operator_and_function_has_a_row():
    text = operators_page()
    for name in [*ALU, *ACTIVATIONS]:
        assert f"| `{name}` " in text
    assert "2.27374e-13 to 4.39805e+12 in magnitude" in text
    assert ", and 0 " in text
    assert "beyond, it goes on as a documented cubic" in text
