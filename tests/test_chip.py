"""A chip is data: one entry of the table of targets adds it, and no rule asks for a generation."""

import ast
import re
import sys
from dataclasses import fields, replace
from pathlib import Path

import how_true
import numpy as np
import pytest
import trees
from typer.testing import CliRunner

import trnsim
from trnsim import nki
from trnsim.arch import NEURONCORE_V4, TARGETS, Features, target
from trnsim.cli import app, command_of
from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT32
from trnsim.errors import BadInput, IllegalInstruction, OutOfMemory
from trnsim.facts import Flag, Names, count, documented, feature, missing_feature, names
from trnsim.isa import Engine, Instruction
from trnsim.isa.language.modes import DgeMode
from trnsim.isa.reference.example import examples
from trnsim.memory import Memory
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.place.machine import compared_platforms, machine
from trnsim.profile.measures.metrics import measure

SOURCE = Path(trnsim.__file__).parent
PAGE = "a page of NeuronCore-v5"
CORE_V5 = replace(
    NEURONCORE_V4,
    name="NeuronCore-v5",
    generation=5,
    tensor_clock_hz=documented(4.8e9, PAGE),
    sbuf_partition_bytes=count(512 * 1024, PAGE),
    features=replace(
        NEURONCORE_V4.features,
        activate2=missing_feature(PAGE),
        rng_engines=names(PAGE, "gpsimd"),
        base_clock_hz=documented(2e9, PAGE),
    ),
)
TRN9 = replace(
    TARGETS["trn3"], name="trn9", generation_name="gen5", core=CORE_V5, plan_note="made up"
)


@pytest.fixture
def added(monkeypatch):
    """Adds one entry to the table of targets, for one test."""

    def add(chip):
        monkeypatch.setitem(TARGETS, chip.name, chip)
        return chip

    return add


@pytest.fixture
def trn9(added):
    return added(TRN9)


@nki.jit
def product(a, b):
    """``a.T @ b`` of [128, 128] and [128, 512], and the generation that it ran on."""
    left, right = nl.load(a), nl.load(b)
    total = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    result = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    nl.store(result, nl.copy(total))
    return result, int(nisa.get_nc_version())


def operands():
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((128, 128), (128, 512))]


def test_a_kernel_runs_on_a_new_chip_and_takes_the_time_of_its_facts(trn9):
    a, b = operands()
    runs = {name: trnsim.run(product, a, b, target=name) for name in ("trn3", trn9.name)}
    for run in runs.values():
        np.testing.assert_allclose(run.outputs[0], a.T @ b, rtol=1e-4, atol=1e-4)
    assert [run.outputs[1] for run in runs.values()] == [4, 5]
    spent = {}
    for name, run in runs.items():
        (matmul,) = [c for c in run.timeline.program.checked if c.instruction.opcode == "nc_matmul"]
        spent[name] = matmul.cost.interval_s
    assert spent["trn3"] == pytest.approx(4 * 512 / 2.4e9)
    assert spent["trn9"] == pytest.approx(4 * 512 / 4.8e9)
    summary = runs["trn9"].summary
    assert summary.target == "NeuronCore-v5"
    assert 0 < summary.total_time_p10_s < summary.total_time_p50_s < summary.total_time_p90_s


def test_a_new_chip_is_chosen_by_name_by_generation_and_by_the_environment(trn9, monkeypatch):
    assert target("gen5") is target("trn9") is trn9
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    assert product(*operands())[1] == 5
    assert nl.tile_size.sbuf_size_bytes == 64 * 2**20
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen5")
    assert product(*operands())[1] == 5


def test_a_kernel_orders_a_new_generation_after_the_old_ones(trn9):
    del trn9
    newest = nisa.nc_version(5)
    assert newest.name == "gen5"
    assert newest > nisa.nc_version.gen4
    with pytest.raises(ValueError, match=r"nc_version[(]6[)]: there is none"):
        nisa.nc_version(6)


def test_a_new_chip_has_its_own_limits(bench, trn9):
    assert bench(trn9.core).empty((128, 300 * 256), FLOAT32).shape == (128, 300 * 256)
    with pytest.raises(OutOfMemory, match="NeuronCore-v4 has 262144 a partition"):
        bench(NEURONCORE_V4).empty((128, 300 * 256), FLOAT32)


def test_a_new_chip_may_lack_what_its_predecessor_has(trn9):
    reason, fix = refusal(example("activate2"), trn9.core)
    assert reason == "on NeuronCore-v5; legal on NeuronCore-v4"
    assert fix == "use nisa.activation, or run with target='trn3'"
    reason, _ = refusal(example("rng", engine=Engine.vector), trn9.core)
    expected = "on NeuronCore-v2, NeuronCore-v3 and NeuronCore-v4"
    assert reason == f"on the Vector Engine of NeuronCore-v5; legal {expected}"


def test_a_profiler_counts_in_the_clock_of_the_new_chip(trn9):
    run = trnsim.run(product, *operands(), target=trn9.name)
    values = measure(run.timeline).values
    assert values["neuroncore_cycle_count"] == round(values["total_time"] * 2e9)


def test_a_new_chip_is_explained(trn9):
    del trn9
    lines = CliRunner().invoke(app, ["explain", "nc_matmul"]).output.splitlines()
    assert any(re.search(r"\| engine +\| .*NeuronCore-v4 \| NeuronCore-v5 \|", x) for x in lines)
    (engine,) = [x for x in lines if x.startswith("| Tensor Engine | yes")]
    assert engine.count("yes") == 4
    (clock,) = [x for x in lines if x.startswith("| `tensor_clock_hz`")]
    assert clock.rstrip(" |").endswith("4.8e+09 documented")
    assert PAGE in how_true.page()


def test_a_new_chip_stands_in_help_and_in_errors(trn9, monkeypatch):
    with pytest.raises(
        BadInput, match="legal: trn1, inf2, trn2, trn3, trn9, gen2, gen3, gen4, gen5"
    ):
        target("trn0")
    # Help is made when a command is first imported, which an earlier test may have done.
    monkeypatch.setattr("trnsim.cli.command_of", command_of.__wrapped__)
    for command in ("run", "compile", "demo"):
        monkeypatch.delitem(sys.modules, f"trnsim.cli.{command}", raising=False)
        monkeypatch.delitem(sys.modules, "trnsim.cli.on", raising=False)
        text = " ".join(CliRunner().invoke(app, [command, "--help"]).output.split())
        assert "(trn1, inf2, trn2, trn3, trn9)" in text
    with pytest.raises(BadInput) as caught:
        trnsim.run(product[2], *operands(), target="trn1")
    assert caught.value.fix == "launch the kernel without [2], or run it for trn2, trn3 or trn9"
    assert compared_platforms() == ("trn1", "trn2", "trn3", trn9.name, "p5en")
    assert machine("trn9").instance.name == "Trn3 Gen2 UltraServer"
    with pytest.raises(BadInput, match="legal: trn1, inf2, trn2, trn3, trn9, inf1, trn1n"):
        machine("trn0")


def test_a_command_runs_a_script_on_a_new_chip(trn9, tmp_path):
    script = tmp_path / "kernel.py"
    script.write_text(
        "from trnsim import nki\nfrom trnsim.nki import language as nl\n"
        "@nki.jit\ndef twice(x):\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.multiply(nl.load(x), 2))\n"
        "    return out\n"
    )
    np.save(tmp_path / "x.npy", np.ones((128, 8), np.float32))
    arguments = ["run", "-v", str(script), "--on", trn9.name, "--input", str(tmp_path / "x.npy")]
    arguments += ["--report", str(tmp_path / "here")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("twice on trn9: ")
    assert "NeuronCore-v5" in done.output


def refusal(instruction, core):
    """Reason and fix of what a core refuses."""
    with pytest.raises(IllegalInstruction) as caught:
        instruction.cost(core, instruction.verify(core))
    return caught.value.reason.partition(": ")[2], caught.value.fix


def example(opcode, **changes):
    return replace(next(examples(Instruction.registry[opcode])), **changes)


def without(added, number, **features):
    """A chip that is a Trainium3 but for some features."""
    core = replace(
        NEURONCORE_V4,
        name="NeuronCore-v4s",
        features=replace(NEURONCORE_V4.features, **features),
    )
    return added(replace(TARGETS["trn3"], name=f"trn3s{number}", generation_name="", core=core))


ABSENT = {
    "mx": (
        "quantize_mx",
        {},
        "on {core}; legal on NeuronCore-v4",
        "use nisa.nc_matmul with FP8 inputs, or run with target='trn3'",
    ),
    "sparse_matmul": (
        "nc_matmul_sparse",
        {},
        "on {core}; legal on NeuronCore-v3 and NeuronCore-v4",
        "use nisa.nc_matmul, or run with target='trn2'",
    ),
    "activate2": (
        "activate2",
        {},
        "on {core}; legal on NeuronCore-v4",
        "use nisa.activation, or run with target='trn3'",
    ),
    "vector_exponential": (
        "exponential",
        {},
        "on {core}; legal on NeuronCore-v4",
        "use nisa.activation(op=nl.exp)",
    ),
    "range_select": (
        "range_select",
        {},
        "on {core}; legal on NeuronCore-v3 and NeuronCore-v4",
        "compare an iota with nisa.tensor_scalar and use nisa.tensor_copy_predicated",
    ),
    "rand2": (
        "rand2",
        {},
        "on the Vector Engine of {core}; legal on NeuronCore-v4",
        "name another engine, or another target",
    ),
    "nonzero_with_count": (
        "nonzero_with_count",
        {},
        "not on {core}; legal on NeuronCore-v3 and NeuronCore-v4",
        "run it with target='trn2', or find the places on the host",
    ),
    "hardware_dge": (
        "dma_copy",
        {"dge_mode": DgeMode.hwdge},
        "dge_mode hwdge on {core}; legal on NeuronCore-v3 and NeuronCore-v4",
        "leave dge_mode out",
    ),
    "dma_priority": (
        "dma_copy",
        {"priority": 1},
        "priority on {core}; legal on NeuronCore-v4",
        "leave priority out",
    ),
    "scalar_tensor_copy": (
        "tensor_copy",
        {"engine": Engine.scalar},
        "engine=nisa.engine.scalar on {core}; legal: vector, gpsimd",
        "use nisa.activation(op=nl.copy)",
    ),
    "activation_number_bias": (
        "activation",
        {"bias": 1.5},
        "bias=1.5 on {core}; legal: a tile of shape [P, 1]",
        "fill a [P, 1] tile with nisa.memset and pass it",
    ),
}


@pytest.mark.parametrize("name", ABSENT)
def test_a_chip_without_a_feature_refuses_what_needs_it(name, added):
    opcode, changes, reason, fix = ABSENT[name]
    instruction = example(opcode, **changes)
    instruction.verify(NEURONCORE_V4)
    chip = without(added, 1, **{name: missing_feature(PAGE)})
    assert refusal(instruction, chip.core) == (reason.format(core=chip.core.name), fix)


@pytest.mark.parametrize(
    ("features", "instruction", "reason"),
    [
        (
            {"rng_engines": names(PAGE, "vector")},
            ("rng", {"engine": Engine.gpsimd}),
            "on the GpSimd Engine of {core}; legal on NeuronCore-v3 and NeuronCore-v4",
        ),
        (
            {"random_state_engines": names(PAGE, "gpsimd")},
            ("rand_set_state", {"engine": Engine.vector}),
            "on the Vector Engine of {core}; legal on NeuronCore-v4",
        ),
        (
            {"alu_operators": names(PAGE, "add")},
            ("tensor_tensor", {"op": "abs_max"}),
            "`op` is abs_max on {core}; legal on NeuronCore-v4",
        ),
    ],
)
def test_a_chip_with_a_smaller_set_refuses_the_rest(features, instruction, reason, added):
    opcode, changes = instruction
    chip = without(added, 2, **features)
    assert refusal(example(opcode, **changes), chip.core)[0] == reason.format(core=chip.core.name)


def test_a_chip_without_a_format_allocates_none_of_it(added, bench):
    small = names(PAGE, *(NEURONCORE_V4.features.dtypes - {"float8_e4m3fn"}))
    chip = without(added, 3, dtypes=small)
    with pytest.raises(IllegalInstruction) as caught:
        bench(chip.core).empty((128, 8), FLOAT8_E4M3FN)
    assert caught.value.reason == "float8_e4m3fn on NeuronCore-v4s; legal on NeuronCore-v4"
    assert caught.value.fix == "choose another dtype, or run with target='trn3'"


def test_a_chip_whose_matmuls_stay_in_a_bank_and_in_float32(added, bench):
    chip = without(
        added,
        4,
        matmul_across_banks=missing_feature(PAGE),
        matmul_dst_dtypes=names(PAGE, "float32"),
        matmul_bfloat16_columns_max=count(512, PAGE),
    )
    work = bench(chip.core, has_values=False)
    left = work.tile(np.ones((128, 64), np.float32), BFLOAT16)
    right = work.tile(np.ones((128, 1024), np.float32), BFLOAT16)
    wide = work.empty((64, 1024), FLOAT32, Memory.PSUM)
    short = work.empty((64, 512), BFLOAT16, Memory.PSUM)
    matmul = Instruction.registry["nc_matmul"]
    reason, _ = refusal(matmul(wide, left, right), chip.core)
    assert reason.endswith("legal on NeuronCore-v4s: one bank of 2048 bytes a partition")
    half = work.tile(np.ones((128, 512), np.float32), BFLOAT16)
    reason, _ = refusal(matmul(short, left, half), chip.core)
    assert reason.endswith("legal on NeuronCore-v4s: float32")
    matmul(wide, left, right).verify(NEURONCORE_V4)
    matmul(short, left, half).verify(NEURONCORE_V4)


def test_a_kernel_meets_the_refusal_at_its_own_line(added):
    chip = without(added, 5, activate2=missing_feature(PAGE))

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        nisa.activate2(dst=tile, op=nl.exp, data=tile, imm0=1.0, imm1=0.0, op0=None, op1=None)
        return tile

    with pytest.raises(IllegalInstruction, match="activate2: on NeuronCore-v4s; legal") as caught:
        trnsim.run(kernel, np.zeros((128, 8), np.float32), target=chip.name)
    assert Path(caught.value.line.file).name == "test_chip.py"


def test_a_feature_that_no_target_has_is_advised_to_nobody(monkeypatch):
    core = replace(
        NEURONCORE_V4, features=replace(NEURONCORE_V4.features, mx=missing_feature(PAGE))
    )
    monkeypatch.setitem(TARGETS, "trn3", replace(TARGETS["trn3"], core=core))
    reason, fix = refusal(example("quantize_mx"), core)
    assert reason == "on NeuronCore-v4; legal on no NeuronCore"
    assert fix == "no target has it"


def test_an_older_chip_with_a_newer_feature_is_named_among_those_that_have_it(added):
    older = TARGETS["trn1"]
    core = replace(
        older.core,
        name="NeuronCore-v2m",
        features=replace(older.core.features, sparse_matmul=feature(PAGE)),
    )
    added(replace(older, name="trn1m", generation_name="", core=core))
    reason, _ = refusal(example("nc_matmul_sparse"), older.core)
    assert reason == "on NeuronCore-v2; legal from NeuronCore-v2m on"


@pytest.fixture(scope="module")
def outside():
    """Files of the source but the table, and but `system/claims`: what somebody said of some chips.

    With each the nodes of its tree, by their kinds.
    """
    return [
        (path.relative_to(SOURCE).as_posix(), trees.nodes(path))
        for path in sorted(SOURCE.rglob("*.py"))
        if not {"arch", "claims"}.intersection(path.relative_to(SOURCE).parts)
    ]


def each(outside, *kinds):
    """The nodes of some kinds, each with its file."""
    return (
        (file, node) for file, nodes in outside for kind in kinds for node in nodes.get(kind, ())
    )


def literals(node):
    """The strings of a literal: itself, or the members of a tuple, list, set or dictionary."""
    members = getattr(node, "elts", None) or getattr(node, "keys", None) or [node]
    return [m.value for m in members if isinstance(m, ast.Constant) and isinstance(m.value, str)]


@pytest.mark.slow
def test_no_rule_compares_generations(outside):
    found = [
        f"{file}:{node.lineno}"
        for file, node in each(outside, ast.Compare)
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and part.attr in ("generation", "first_generation")
    ]
    assert not found


@pytest.mark.slow
def test_no_rule_compares_names_of_chips(outside):
    chips = {name for chip in TARGETS.values() for name in (chip.name, chip.chip, chip.core.name)}
    found = [
        f"{file}:{node.lineno}"
        for file, node in each(outside, ast.Compare)
        for part in [node.left, *node.comparators]
        if chips.intersection(literals(part))
    ]
    assert not found


@pytest.mark.slow
def test_no_other_place_lists_the_chips(outside):
    found = [
        f"{file}:{node.lineno}"
        for file, node in each(
            outside, ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.MatchMapping
        )
        for text in [" ".join(literals(node))]
        if text.count("trn") + text.count("inf") > 2
        if len(set(re.findall(r"\b(?:trn\d|inf\d)\b", text))) > 2
    ]
    assert not found


@pytest.mark.slow
def test_no_error_spells_who_has_a_feature(outside):
    found = [
        f"{file}:{node.lineno}: {text}"
        for file, node in each(outside, ast.Constant)
        for text in literals(node)
        if "legal" in text or "run" in text
        if re.search(
            r"legal (from|on) NeuronCore|legal from|run (it )?(with|for|on) (target='?)?trn", text
        )
    ]
    assert not found


@pytest.mark.slow
def test_every_feature_is_read_by_some_rule(outside):
    read = {
        node.attr
        for _, node in each(outside, ast.Attribute)
        if "features" in (getattr(node.value, "attr", ""), getattr(node.value, "id", ""))
    }
    asked_by_the_table = {"dtypes"}  # by arch.has_dtype
    assert {field.name for field in fields(Features)} == read - {"facts"} | asked_by_the_table


def test_every_flag_and_set_differs_between_some_cores():
    for field in fields(Features):
        values = {getattr(chip.core.features, field.name) for chip in TARGETS.values()}
        plain = {bool(v) if isinstance(v, Flag) else v for v in values}
        assert len(plain) > 1, f"{field.name} is the same on every core: no feature"
        assert all(isinstance(v, Flag | Names | int | float | None) for v in values)
