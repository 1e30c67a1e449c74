"""The pages of docs that are made from the source are what the source makes today."""

import re
from functools import cache
from pathlib import Path

import pytest

from trnsim.arch.provenance import how_true
from trnsim.compiler.ncc.page import errors_page
from trnsim.fabric import published
from trnsim.isa.reference.contents import pages
from trnsim.jax.stablehlo.page import operations_page

DOCS = Path(__file__).parents[1] / "docs"


MAKERS = {
    "how-true.md": how_true,
    "ncc-errors.md": errors_page,
    "jax-ops.md": operations_page,
    "accuracy-collectives.md": published.page,
}
"""Path below docs -> what makes it of the source."""


@cache
def instructions():
    """Path below docs -> what the source makes of it."""
    return {f"isa/{name}": text for name, text in pages().items()}


def made(name):
    """The page of that name."""
    return MAKERS[name]() if name in MAKERS else instructions()[name]


@pytest.mark.slow_cases("accuracy-collectives.md")
@pytest.mark.parametrize("name", [*instructions(), *MAKERS])
def test_a_page_is_what_the_source_makes_of_it(name):
    assert (DOCS / name).read_text(encoding="utf-8") == made(name), "run `make docs`"


def test_there_is_no_page_of_an_instruction_that_is_gone():
    assert {path.name for path in (DOCS / "isa").iterdir()} == set(pages())


def test_a_link_between_pages_leads_somewhere():
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_reading_guide_names_files_that_exist():
    guide = (DOCS / "reading-guide.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|examples|docs)/[\w/.-]+)`", guide)
    assert len(named) > 20
    for name in named:
        assert (DOCS.parent / name).exists(), name


def rewrite():
    """Write every page that the source makes: `make docs`."""
    folder = DOCS / "isa"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name in (*instructions(), *MAKERS):
        (DOCS / name).write_text(made(name), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
