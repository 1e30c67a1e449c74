import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput
from trnsim.isa import Instruction, NcMatmul
from trnsim.isa.reference.page import page


def run(*arguments):
    result = CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", ["nc_matmul", "nisa.nc_matmul", "nki.isa.nc_matmul", "NcMatmul"])
def test_the_page_of_an_instruction_is_printed(name):
    assert run(name) == page(NcMatmul)


def test_without_a_name_all_instructions_are_listed():
    lines = run().splitlines()
    assert len(lines) == 1 + len(Instruction.registry)
    assert lines[1].startswith("activate2  ")


def test_an_unknown_name_suggests_near_ones():
    with pytest.raises(BadInput, match="matmul is no instruction; near: nc_matmul") as caught:
        run("matmul")
    assert caught.value.fix == "trnsim explain lists all instructions"
    with pytest.raises(BadInput, match="near: nothing"):
        run("zzzzzz")
