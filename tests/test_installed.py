"""What people get: the wheel in an environment of its own, and the first commands as printed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_STEPS = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README + FIRST_STEPS, re.DOTALL)
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def is_installed(name):
    """Whether there is such a distribution; nothing of it is imported."""
    try:
        return distribution(name) is not None
    except PackageNotFoundError:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (is_installed("pip") and is_installed("hatchling")),
        reason="builds with pip and hatchling, which make test installs",
    ),
]


def ended(command, cwd, **variables):
    """A command that ran, which knows of no other Python than its own."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        command, cwd=cwd, env=known | variables, capture_output=True, text=True, check=False
    )


def done(command, cwd, **variables):
    """What a command prints; it must succeed."""
    ran = ended(command, cwd, **variables)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The tree as it is published: the source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    building = "from hatchling.cli import hatchling; hatchling()"
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", building, "build", "-t", "sdist", "-d", str(folder)]
    done(command, ROOT, PYTHONPATH=path)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """The wheel that is built from the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
    path = os.pathsep.join(sys.path)
    done([*PIP, "wheel", "--quiet", *options, str(source)], folder, PYTHONPATH=path)
    (built,) = folder.glob("*.whl")
    return built


def needed(names):
    """The distributions that `names` require, one by one, without extras."""
    pending, found = list(names), {}
    while pending:
        requirement = Requirement(pending.pop())
        is_here = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_here and requirement.name not in found:
            found[requirement.name] = known = distribution(requirement.name)
            pending += known.requires or []
    return found.values()


@pytest.fixture(scope="module")
def folder(wheel, tmp_path_factory):
    """A folder with the examples, and as .venv what make run makes: neither torch nor pyarrow."""
    folder = tmp_path_factory.mktemp("clean")
    shutil.copytree(ROOT / "examples", folder / "examples")
    venv.create(folder / ".venv", symlinks=True)
    (site,) = (folder / ".venv").glob("lib/python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for known in needed(project["dependencies"]):
        tops = {file.parts[0] for file in known.files or [] if file.parts[0] not in ("..", "bin")}
        for top in tops - {"__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(known.locate_file(top))
    python = str(folder / ".venv" / "bin" / "python")
    install = ["--python", python, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done([*PIP, *install], folder, PYTHONPATH=os.pathsep.join(sys.path))
    return folder


@pytest.mark.slow
def test_the_wheel_has_the_package_the_examples_and_the_finder(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    examples = {path.name for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert {f"trnsim/examples/{name}" for name in examples} <= names
    assert {"trnsim.pth", "_trnsim_finder.py", "trnsim/py.typed"} <= names
    stubs = {f"{name}-stubs" for name in ("nki", "torch_neuron", "torch_neuronx", "torch_xla")}
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        *stubs, "trnsim", "trnsim.pth", "_trnsim_finder.py",
    }  # fmt: skip
    assert {f"{name}/{file}" for name in stubs for file in ("py.typed", "__init__.pyi")} <= names
    data = {"claims.yaml", "facts.yaml", "rates.json"}
    assert {f"trnsim/system/claims/{name}" for name in data} <= names
    assert not [name for name in names if name.endswith(".d.ts") or "/makers/" in name]
    assert not [name for name in names if "__pycache__" in name]


def test_the_source_distribution_has_what_make_needs(source):
    for name in ("Makefile", "constraints.txt", "pyproject.toml", "tests/test_tiny.py", "LICENSE"):
        assert (source / name).is_file(), name


@pytest.mark.slow
def test_outside_the_repository_the_demo_runs_without_torch(folder, tmp_path):
    command = folder / ".venv" / "bin" / "trnsim"
    shown = done([command, "demo"], tmp_path).splitlines()
    heads = [line.split()[0] for line in shown if not line.startswith(" ")]
    assert heads == ["trnsim:", "1", "2", "3", "4", "5", "Report"]
    assert "torch is not installed; to enable this: pip install 'trnsim[torch]'" in "\n".join(shown)
    assert (tmp_path / "trnsim-report" / "attention.html").is_file()
    kernel, training = (next(i for i, line in enumerate(shown) if line[0] == head) for head in "13")
    places = [word for line in shown[kernel:training] for word in line.split() if ".py:" in word]
    advised, refused = (Path(re.fullmatch(r"(.+):\d+", place)[1]) for place in places)
    assert advised.is_relative_to(folder)
    assert (advised.name, refused.name) == ("attention.py", "mistake.py")
    assert advised.is_file()
    assert refused.is_file()


@pytest.mark.slow
def test_outside_the_repository_a_missing_script_names_an_example_that_is_there(folder, tmp_path):
    command = [folder / ".venv" / "bin" / "trnsim", "run", "examples/attention.py"]
    ran = ended(command, tmp_path)
    assert ran.returncode == 2
    (named,) = re.findall(r"for example (\S+)", ran.stderr)
    assert Path(named).is_relative_to(folder)
    printed = done([*command[:2], named], tmp_path)
    assert printed.startswith("attention [1024, 128]: error against")


@pytest.mark.slow
def test_a_program_that_needs_torch_is_told_what_to_install(folder):
    command = [folder / ".venv" / "bin" / "trnsim", "run", "examples/train_loop.py"]
    ran = ended(command, folder)
    assert ran.returncode == 1
    assert ran.stderr.endswith("trnsim: torch is an extra: pip install 'trnsim[torch]'\n")
    assert ran.stderr.count("  File") == 1


def test_nki_can_be_imported_from_the_wheel(folder, tmp_path):
    python = folder / ".venv" / "bin" / "python"
    code = "import nki, nki.isa, torch_neuron, trnsim; print(trnsim.__file__)"
    code = code.replace("torch_neuron, ", "")  # which needs torch
    assert done([python, "-c", code], tmp_path).startswith(str(folder))


def test_readmes_first_block_names_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", BLOCKS[0], re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


@pytest.mark.slow
def test_readmes_commands_run_as_printed_after_make_run(folder):
    assert "bound by" in done(["bash", "-ec", BLOCKS[1]], folder)


@pytest.mark.slow
def test_first_steps_run_as_printed_after_make_run(folder):
    printed = done(["bash", "-ec", BLOCKS[2]], folder)
    assert (folder / "out.npy").is_file()
    assert "trnsim: a Trainium you can pip install" in printed
    assert {path.name for path in (folder / "before").iterdir()} >= {"step1.html", "step1.json"}


@pytest.mark.slow
def test_first_steps_of_pytorch_run_once_it_is_installed(folder):
    pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    install, *commands = BLOCKS[3].splitlines()
    assert install.startswith("pip install 'trnsim[torch]'")
    ours = f'trnsim() {{ "{sys.executable}" -m trnsim "$@"; }}\n'
    path = os.pathsep.join([str(ROOT / "src"), *sys.path])
    printed = done(["bash", "-ec", ours + "\n".join(commands)], folder, PYTHONPATH=path)
    assert "loss " in printed
    assert (folder / "here" / "step.html").is_file()


def test_every_block_of_readme_and_first_steps_is_tested():
    assert len(BLOCKS) == 4
