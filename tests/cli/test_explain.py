import pytest
from typer.testing import CliRunner

from trnsim.arch.catalogue import catalogue
from trnsim.cli import app
from trnsim.errors import BadInput
from trnsim.isa import Instruction, NcMatmul
from trnsim.isa.reference.page import page
from trnsim.price import KINDS


def run(*arguments):
    result = CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", ["nc_matmul", "nisa.nc_matmul", "nki.isa.nc_matmul", "NcMatmul"])
def test_the_page_of_an_instruction_is_printed(name):
    link, place = "[how true they are](../how-true.md)", "docs/generated/how-true.md"
    assert link in page(NcMatmul)
    assert run(name) == page(NcMatmul).replace(link, f"how true they are ({place})")


def test_without_a_name_all_instructions_are_listed():
    lines = run().splitlines()
    assert [line.split()[0] for line in lines[1:] if line[0] != " "] == sorted(Instruction.registry)
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("activate2  ")


def test_an_unknown_name_suggests_near_ones():
    with pytest.raises(BadInput, match="matmul is no instruction, claim, chip or instance; near: "):
        run("matmul")
    with pytest.raises(BadInput, match=r"near: .*nc_matmul") as caught:
        run("matmul")
    assert caught.value.fix.startswith("trnsim explain lists all instructions")
    with pytest.raises(BadInput, match=r"near: .*trn2\.48xlarge"):
        run("trn2.48xlrage")
    with pytest.raises(BadInput, match="near: nothing"):
        run("zzzzzz")


@pytest.mark.parametrize("name", ["C07", "c07"])
def test_a_claim_is_explained_on_every_basis(name):
    assert run(name).startswith("C07  ")
    assert "more: trnsim claims" not in run(name)


@pytest.mark.parametrize("name", ["trainium2", "Trainium2", "Trn2", "trn2"])
def test_a_chip_is_explained_with_sources_and_contradictions(name):
    output = run(name)
    assert output.startswith("trainium2 (Trn2): 8 NeuronCores, 2024")
    assert "sources disagree, HBM bandwidth: Trn2 2.9" in output


def test_an_announced_chip_is_explained_as_such():
    assert run("trainium4").startswith("trainium4: announced, no spec sheet")


@pytest.mark.parametrize("name", list(catalogue().instances))
def test_every_instance_is_explained_in_100_columns(name):
    output = run(name)
    assert output.startswith(f"{name}: ")
    assert max(map(len, output.splitlines())) <= 100


def test_an_instance_without_any_price_says_so():
    assert run("p6e-gb200.36xlarge").endswith("no price of any kind\n")


def test_price_teaches_the_kinds_and_the_rules():
    output = run("price")
    assert all(f"\n  {kind}: " in output for kind in KINDS)
    assert "unless --mixed-prices" in output
    assert "more than 90 days old" in output
    assert max(map(len, output.splitlines())) <= 100


def test_one_kind_is_explained():
    output = run("capacity_block")
    assert "1 to 182 days" in output
    assert "spot" not in output
