"""What README and docs print is what the program prints."""

import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir, redirect_stdout, suppress
from datetime import date
from itertools import takewhile
from pathlib import Path
from unittest.mock import patch

import pytest

import trnsim
from trnsim.cli import app
from trnsim.demo.claims_section import claims_blocks
from trnsim.demo.cost_section import cost_blocks
from trnsim.demo.kernel_section import show_kernel
from trnsim.demo.mistake_section import mistake_blocks
from trnsim.demo.training_section import training_blocks
from trnsim.document.text import section_text

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TUTORIAL = ROOT / "docs" / "tutorial-profile.md"
JAX = ROOT / "docs" / "tutorial-jax.md"
PLANNER = ROOT / "docs" / "tutorial-plan.md"
PLATFORM = ROOT / "docs" / "tutorial-platform.md"
MODEL = ROOT / "docs" / "tutorial-model.md"
RANKS = ROOT / "docs" / "ranks.md"
GRIDS = ROOT / "docs" / "grids.md"
VERSIONS = ROOT / "docs" / "how-to-nki-versions.md"
SCALARS = ROOT / "docs" / "scalars.md"
ORDER = ROOT / "docs" / "how-to-order-instructions.md"
MIGRATE = ROOT / "docs" / "how-to-migrate.md"
COMMANDS = ROOT / "docs" / "commands.md"
GATE = ROOT / "docs" / "how-to-gate.md"
TUNE = ROOT / "docs" / "how-to-tune.md"
PRICES = ROOT / "docs" / "prices.md"
ECS = ROOT / "docs" / "how-to-ecs-and-batch.md"
FLEET = ROOT / "docs" / "how-to-share-a-fleet.md"
PLAN = ROOT / "docs" / "how-to-plan.md"
DECIDE = ROOT / "docs" / "how-to-decide.md"
PILOT = ROOT / "docs" / "how-to-pilot.md"
CALIBRATE = ROOT / "docs" / "how-to-calibrate.md"
NOTEBOOKS = ROOT / "docs" / "how-to-notebooks.md"
MCP = ROOT / "docs" / "how-to-mcp.md"
TORCH_XLA = ROOT / "docs" / "torch-xla.md"
TORCH_NEURONX = ROOT / "docs" / "torch-neuronx.md"
NCCOM = ROOT / "docs" / "how-to-nccom-test.md"
SLURM_JOBS = ROOT / "docs" / "how-to-slurm-and-nemo-jobs.md"
SLURM = ROOT / "docs" / "how-to-slurm.md"
POD_JOBS = ROOT / "docs" / "how-to-kubernetes-jobs.md"
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
    blocks = [
        *show_kernel().blocks(),
        *mistake_blocks(),
        *training_blocks(),
        *cost_blocks(as_of=DAY),
        *claims_blocks(),
    ]
    return section_text("", blocks).splitlines()


@pytest.mark.slow
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


@pytest.mark.parametrize("page", ["README.md", "docs/first-steps.md"])
def test_a_first_page_names_only_commands_that_exist(page):
    from typer.main import get_command  # noqa: PLC0415

    commands = set(get_command(app).commands)
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"^trnsim (\w+)", "\n".join(blocks("sh", text)), re.MULTILINE))
    assert named
    assert named <= commands


@pytest.mark.parametrize("page", ["README", "CONTRIBUTING", "SECURITY", "CHANGELOG"])
def test_a_page_of_the_root_names_only_files_that_exist(page):
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    quoted = re.findall(r"`((?:src|tests|docs|locks)/[\w/.-]+)`", text)
    assert [name for name in linked + quoted if not (ROOT / name).exists()] == []
    assert linked or page == "SECURITY"


def test_the_changelog_has_the_version_of_the_package():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(trnsim.__version__)} - \d{{4}}-\d\d-\d\d", heads[1])


def commands(text):
    """Language, command and output of each block of the tutorial that runs something."""
    found = []
    for language, body in re.findall(r"```(sh|console)\n(.*?)```", text, re.DOTALL):
        command, _, output = body.removeprefix("$ ").partition("\n")
        found.append((language, command, output))
    return found


def is_assignment(word):
    """True for a variable that is set before a command: NAME=value."""
    return re.match(r"[A-Z_]+=", word)


APART = {f"examples/{name}.py" for name in ("kernel_jax", "train_jax", "train_loop")}


def printed_apart(words):
    """What a command prints in a process of its own, whatever its findings."""
    environment = os.environ | {
        "COLUMNS": "100",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TRNSIM_STATE": str(Path.cwd() / "state"),  # tests have none
    }
    command = [sys.executable, "-m", "trnsim", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    ).stdout


def outputs(text, folder):
    """What each command of the tutorial prints, run in order in `folder`.

    A shell takes the place of its process, JAX starts threads, and a step is timed once a process:
    they are run apart.
    """
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    (folder / "bench").mkdir(exist_ok=True)
    for program in ("schedules.py", "tuning.py"):
        shutil.copy(ROOT / "bench" / program, folder / "bench")
    found = []
    with (
        chdir(folder),
        patch.dict(os.environ),
        patch("trnsim.price.quotes.today", return_value=DAY),
    ):
        os.environ.pop("TRNSIM_SITE", None)  # a page may write one and use it
        for _, command, _ in commands(text):
            words = shlex.split(command)
            variables = dict(word.split("=", 1) for word in takewhile(is_assignment, words))
            name, *arguments = words[len(variables) :]
            assert name in ("trnsim", "python")
            if arguments[0] == "shell" or APART.intersection(arguments):
                found.append(printed_apart(arguments))
                continue
            with patch.dict(os.environ, variables), redirect_stdout(io.StringIO()) as printed:
                if name == "trnsim":
                    with suppress(SystemExit):  # a finding is an answer with a status of its own
                        app(args=arguments, standalone_mode=False)
                else:
                    runpy.run_path(*arguments, run_name="__main__")
            found.append(printed.getvalue())
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "number"),
    [
        *[
            (TUTORIAL, 10),
            (MODEL, 5),
            (RANKS, 4),
            (GRIDS, 1),
            (SCALARS, 1),
            (VERSIONS, 2),
            (ORDER, 1),
            (PRICES, 5),
            (ECS, 7),
        ],
        *[(MIGRATE, 3), (COMMANDS, 2), (FLEET, 2), (PLAN, 11), (DECIDE, 6), (PILOT, 3)],
        *[(CALIBRATE, 4), (NCCOM, 7), (SLURM_JOBS, 8), (SLURM, 1), (POD_JOBS, 5)],
        *[(GATE, 4), (TUNE, 3), (JAX, 3), (PLANNER, 3), (PLATFORM, 4)],
    ],
)
@pytest.mark.filterwarnings("ignore:nl.dynamic_range")  # an example of NKI 0.6 has one
def test_a_tutorial_shows_what_its_commands_print(page, number, tmp_path):
    for needed in ("highspy",) if page == FLEET else ("pyarrow", "torch"):
        pytest.importorskip(needed)
    if page == JAX:
        pytest.importorskip("jax")
    text = page.read_text(encoding="utf-8")
    shown = commands(text)
    assert len(shown) == number
    for (language, command, output), printed in zip(shown, outputs(text, tmp_path), strict=True):
        assert output == (printed if language == "console" else ""), command


def test_every_step_of_the_tutorial_is_faster_than_the_one_before(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    (code,) = blocks("python", TUTORIAL.read_text(encoding="utf-8"))
    exec(compile(code, str(TUTORIAL), "exec"), {})  # noqa: S102  that is the test
    sys.path.remove("examples")
    import matmul_steps  # noqa: PLC0415

    times = [
        trnsim.run(kernel, *matmul_steps.inputs(step), numerics=False).total_time_s
        for step, kernel in matmul_steps.STEPS.items()
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > 2 * times[-1]


def rewrite_tutorial(page):
    """Put what its commands print today into a tutorial."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        made = outputs(text, Path(folder))
    for (language, command, output), printed in zip(commands(text), made, strict=True):
        if language == "console":
            shown = f"$ {command}\n"
            text = text.replace(shown + output, shown + printed, 1)
    page.write_text(text, encoding="utf-8")


def rewrite():
    """Put what is printed today into README: `make docs`."""
    (shown,) = blocks("text")
    first, *_, last = shown.splitlines()
    text = README.replace(shown, "\n".join([first, *sections(), last]) + "\n")
    (ROOT / "README.md").write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", [TORCH_XLA, TORCH_NEURONX], ids=lambda page: page.stem)
def test_programs_of_torch_xla_print_what_their_page_shows(name, tmp_path):
    page = name.read_text()
    for program, shown in zip(blocks("python", page), blocks("text", page), strict=True):
        command = [sys.executable, "-c", program]
        run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert run.stdout == shown


@pytest.mark.slow
def test_the_program_of_the_tools_page_prints_what_it_shows():
    (program,), (shown,) = (blocks(kind, MCP.read_text()) for kind in ("python", "text"))
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == shown


def printed_by_the_notebook_page():
    """Output and error of the page's program, as a program of a user."""
    (program,) = blocks("python", NOTEBOOKS.read_text())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cells.py").write_text(program)
        command = [sys.executable, "cells.py"]
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return (run.stdout + run.stderr).replace(str(Path(folder) / "cells.py"), "cells.py")


@pytest.mark.slow
def test_the_page_of_notebooks_shows_what_its_program_prints():
    (shown,) = blocks("text", NOTEBOOKS.read_text())
    assert printed_by_the_notebook_page() == shown


def test_the_page_of_words_has_the_terms_of_layouts_and_figures():
    page = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")
    first = ", ".join(re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE))
    words = (
        "TP PP DP CP EP SP ZeRO recompute P10 P90 P99 MFU MBU goodput TTFT TPOT SLO LNC EFA SBUF"
    )
    assert [word for word in words.split() if not re.search(rf"\b{word}\b", first)] == []


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    rewrite()
    (program_output,) = blocks("text", NOTEBOOKS.read_text())
    text = NOTEBOOKS.read_text().replace(program_output, printed_by_the_notebook_page())
    NOTEBOOKS.write_text(text)
    rewrite_tutorial(TUTORIAL)
    rewrite_tutorial(MODEL)
    rewrite_tutorial(JAX)
    rewrite_tutorial(PLANNER)
    rewrite_tutorial(PLATFORM)
    rewrite_tutorial(RANKS)
    rewrite_tutorial(GRIDS)
    rewrite_tutorial(VERSIONS)
    rewrite_tutorial(MIGRATE)
    rewrite_tutorial(GATE)
    rewrite_tutorial(TUNE)
    rewrite_tutorial(SCALARS)
    rewrite_tutorial(ORDER)
    rewrite_tutorial(PRICES)
    rewrite_tutorial(ECS)
    rewrite_tutorial(COMMANDS)
    rewrite_tutorial(FLEET)
    rewrite_tutorial(PLAN)
    rewrite_tutorial(DECIDE)
    rewrite_tutorial(PILOT)
    rewrite_tutorial(CALIBRATE)
    rewrite_tutorial(NCCOM)
    rewrite_tutorial(SLURM_JOBS)
    rewrite_tutorial(SLURM)
    rewrite_tutorial(POD_JOBS)
