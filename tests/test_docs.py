"""What README and docs print is what the program prints."""

import re
from datetime import date
from pathlib import Path

import pytest

from trnsim import screen

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DAY = date(2026, 11, 21)


def blocks(language, text=README):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def figures_apart(line):
    """The line with its mantissas cut to one digit: a BLAS may add in another order."""
    return re.sub(r"(\d)\.\d+e", r"\1e", line)


@pytest.fixture(scope="module")
def printed():
    """The sections of `trnsim demo`, as of the day that README states."""
    pytest.importorskip("torch")
    return sections()


def sections():
    """The lines between the first and the last of `trnsim demo`."""
    return [
        *screen.show_kernel().lines(),
        *screen.mistake_lines(),
        *screen.training_lines(),
        *screen.cost_lines(as_of=DAY),
        *screen.claims_lines(),
    ]


def test_readme_shows_what_make_run_prints(printed, monkeypatch):
    monkeypatch.chdir(ROOT)
    (shown,) = blocks("text")
    lines = shown.splitlines()[1:-1]
    assert str(DAY) in README
    assert [figures_apart(line) for line in lines] == [figures_apart(line) for line in printed]


def test_readmes_kernel_runs_and_prints_what_it_says(capsys):
    code, *_ = blocks("python")
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102  that is the test
    (expected,) = re.findall(r"# prints: (.*)", code)
    assert capsys.readouterr().out.strip() == expected


def test_readme_names_only_commands_that_exist():
    from typer.main import get_command  # noqa: PLC0415

    from trnsim.cli import app  # noqa: PLC0415

    commands = set(get_command(app).commands)
    named = set(re.findall(r"^trnsim (\w+)", "\n".join(blocks("sh")), re.MULTILINE))
    assert named
    assert named <= commands


def test_readme_names_only_files_that_exist():
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / name).exists(), name


def rewrite():
    """Put what is printed today into README: `make golden`."""
    (shown,) = blocks("text")
    first, *_, last = shown.splitlines()
    text = README.replace(shown, "\n".join([first, *sections(), last]) + "\n")
    (ROOT / "README.md").write_text(text)


if __name__ == "__main__":
    rewrite()
