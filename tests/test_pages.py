"""The pages of docs that are made from the source are what the source makes today."""

import ast
import inspect
import re
from pathlib import Path

import nki.collectives
import nki.isa
import pytest
from pages import DOCS, GENERATED, MAKERS, instructions, made

from trnsim.isa import Instruction
from trnsim.isa.reference.page import call


@pytest.mark.slow_cases("accuracy-collectives.md")
@pytest.mark.parametrize("name", [*instructions(), *MAKERS])
def test_a_page_is_what_the_source_makes_of_it(name):
    assert (GENERATED / name).read_text(encoding="utf-8") == made(name), "run `make docs`"


def test_there_is_no_page_of_an_instruction_that_is_gone():
    assert {path.name for path in (GENERATED / "isa").iterdir()} == {
        Path(name).name for name in instructions()
    }


def test_a_link_between_pages_leads_somewhere():
    for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", ["reading-guide.md", "runs.md"])
def test_a_page_names_files_that_exist(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    named = re.findall(r"[` ]((?:src|tests|bench|examples|docs)/[\w/.-]+)[` ]", text)
    assert len(named) > 20
    for name in named:
        assert (DOCS.parent / name).exists(), name


@pytest.mark.parametrize("opcode", [Path(name).stem for name in instructions()])
def test_the_call_on_a_page_is_that_of_the_function(opcode):
    declared = Instruction.registry.get(opcode)
    room = nki.isa if declared is None or declared.is_in_nki_isa else nki.collectives
    function = getattr(room, opcode, None)
    if declared is None or function is None:
        assert opcode in ("index", "operators", "nc_matmul_sparse", "scalar_arithmetic")
        return
    (statement,) = ast.parse(call(declared)).body
    written = [arg.id for arg in statement.value.args]
    written += [keyword.arg for keyword in statement.value.keywords]
    assert set(written) == set(inspect.signature(function).parameters) - {"name"}
