"""What an import brings along, each time in a fresh Python (`make bench` measures its time)."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import trnsim
from trnsim.cli import COMMANDS, module_of

PACKAGE = Path(trnsim.__file__).parent
HELP = "import sys; sys.argv[1:] = ['--help']\nfrom trnsim.cli import main\ntry: main()\n"
HELP += "except SystemExit: pass"
FRAMEWORKS = {"torch", "jax", "jaxlib", "pyarrow"}
LATER = FRAMEWORKS | {"typer", "click", "rich", "asyncio", "importlib.metadata"}
"""What other imports of ours never need."""


def loaded(program):
    """The modules that `program` loads into a Python that has just started."""
    listing = "\nimport sys; print('modules:', *sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program + listing], capture_output=True, text=True, check=True
    )
    return set(done.stdout.rpartition("modules:")[2].split())


def of_ours(modules):
    return {name for name in modules if name.partition(".")[0] == "trnsim"}


def test_trnsim_alone_loads_no_room_and_no_package():
    modules = loaded("import trnsim")
    assert of_ours(modules) == {
        *("trnsim", "trnsim.observers", "trnsim.user_traceback", "trnsim.version"),
    }
    assert not modules & (
        LATER | {"numpy", "ml_dtypes", "greenlet", "json", "dataclasses", "typing"}
    )


def test_a_run_loads_no_framework_no_command_line_and_nothing_above_it():
    modules = loaded("import trnsim; trnsim.run")
    assert "trnsim.isa" in modules
    assert not modules & LATER
    rooms = {name.split(".")[1] for name in of_ours(modules) if "." in name}
    assert not rooms & {
        "cli",
        "demo",
        "system",
        "estimate",
        "price",
        "torch",
        "lower",
        "nki",
        "profile",
    }


def test_kernels_load_no_framework_and_no_command_line():
    modules = loaded("import nki")
    assert "trnsim.nki.kernel" in modules
    assert not modules & LATER
    rooms = {name.split(".")[1] for name in of_ours(modules) if "." in name}
    assert not rooms & {"cli", "demo", "system", "estimate", "price", "torch", "lower", "graph"}


@pytest.mark.parametrize("program", ["import trnsim.cli", HELP])
def test_the_command_line_loads_its_parser_and_no_room(program):
    modules = loaded(program)
    assert "typer" in modules
    assert not modules & (FRAMEWORKS | {"numpy", "ml_dtypes", "rich", "json"})
    assert of_ours(modules) == {
        "trnsim",
        "trnsim.cli",
        "trnsim.cli.error_text",
        "trnsim.cli.help_text",
        "trnsim.cli.parsing",
        "trnsim.cli.terminal",
        "trnsim.cli.usage_errors",
        "trnsim.document",  # its name and the wrapping of text alone
        "trnsim.document.wrapping",
        "trnsim.errors",
        "trnsim.foreign_text",
        "trnsim.observers",
        "trnsim.user_traceback",
        "trnsim.version",
    }


SHARED = {"run": {"profile"}, "explain": {"chips", "instances"}, "slurm": {"launch"}}
"""Commands whose answers or parts a command gives too: runs side by side, a chip, ranks."""


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_no_other_command_and_no_framework(command):
    modules = loaded(HELP.replace("'--help'", f"{command!r}, '--help'"))
    assert module_of(command) in modules
    others = {module_of(name) for name in COMMANDS.keys() - {command} - SHARED.get(command, set())}
    assert not modules & (others | FRAMEWORKS)


@pytest.mark.slow
def test_an_assessment_loads_no_framework():
    """It knows by a list which operators of PyTorch are lowered."""
    modules = loaded("import trnsim.decide.assess, trnsim.decide.programs")
    assert "trnsim.decide.scan.lowered" in modules
    assert not modules & FRAMEWORKS


# The names that are there without having been imported


@pytest.mark.parametrize("name", sorted(set(trnsim.__all__) - {"__version__"}))
def test_every_name_is_what_its_room_says(name):
    assert name in dir(trnsim)
    module = import_module(trnsim._MODULES[name])
    assert getattr(trnsim, name) is getattr(module, name)


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match=r"^module 'trnsim' has no attribute 'walk'$"):
        _ = trnsim.walk


def test_no_room_hides_a_name_of_the_package():
    """Importing `trnsim.NAME` would put the module in the place of the function."""
    rooms = {path.stem for path in PACKAGE.iterdir()}
    assert not rooms & set(trnsim.__all__)


def test_type_checkers_see_every_name():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(
        node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    seen = {
        name.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert seen == trnsim._MODULES
    assert seen.keys() | {"__version__"} == set(trnsim.__all__)


def names_asked_of_later_modules(file):
    """(module, name) of each ``import_module("trnsim....").name`` in a file."""
    text = file.read_text(encoding="utf-8")
    if "import_module(" not in text:  # most files: parsing all takes seconds
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        is_import = getattr(call.func, "id", "") == "import_module" and call.args
        module = call.args[0].value if is_import and isinstance(call.args[0], ast.Constant) else ""
        if module.startswith("trnsim."):
            yield module, node.attr


def test_names_that_are_asked_of_modules_loaded_later_exist_there():
    asked = {pair for file in PACKAGE.rglob("*.py") for pair in names_asked_of_later_modules(file)}
    assert len(asked) > 3
    for module, name in asked:
        path = PACKAGE.joinpath(*module.split(".")[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        defined: set[str] = set()
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.asname or alias.name for alias in getattr(node, "names", [])]
            targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
            defined |= {*names, getattr(node, "name", "")}
        assert {name, "__getattr__"} & defined, f"{module} has no {name}"


DEVICE_LATER = {
    *("compiler", "estimate", "graph", "isa", "lower", "nki", "program", "runs", "timing"),
}
"""Rooms that instructions and times need, and that PyTorch's device loads when it is asked."""
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs trnsim[torch]")


@pytest.mark.slow
@NEEDS_TORCH
@pytest.mark.parametrize("use", ["", "; (torch.ones(4, device='neuron') + 1).cpu()"])
def test_pytorch_and_tensors_on_the_device_load_no_room_of_instructions_or_times(use):
    modules = loaded(f"import torch{use}")
    rooms = {name.split(".")[1] for name in of_ours(modules) if "." in name}
    assert "torch" in rooms
    assert not rooms & DEVICE_LATER
    assert "ml_dtypes" not in modules, "it takes 80 ms"


@pytest.mark.slow
@NEEDS_TORCH
@pytest.mark.parametrize("first", ["nki", "torch", "torch, trnsim.compiler"])
def test_kernels_are_launched_on_tensors_whatever_is_imported_first(first):
    program = f"import {first}\nimport nki, torch, trnsim.torch.dispatch.launches"
    program += "\nfrom trnsim.nki.kernel import launchers\nassert len(launchers) == 1, launchers"
    assert "trnsim.torch.dispatch.kernel_launcher" in loaded(program)
