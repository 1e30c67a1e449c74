"""The shape of the house: a test for every source file, and budgets for files and functions."""

import ast
from collections import Counter
from pathlib import Path

import pytest
import trees

pytestmark = pytest.mark.slow  # make check runs it

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TESTS = ROOT / "src" / "trnsim", ROOT / "tests"
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
MAKERS = ROOT / "docs" / "makers"
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_FOLDER_FILES = 15

# Files without a mirror of their own: which test covers them, and why.
COVERED = {
    "program/connections.py": ("program/test_team.py", "what a team connects its cores to"),
    "program/follower.py": ("program/test_records.py", "the comparison of a run with a record"),
    "reader/parsed.py": ("reader/test_json_text.py", "what every parser answers"),
    "device/store.py": ("device/test_agreement.py", "it says what a store has; two are used there"),
    "__main__.py": ("cli/test_main.py", "python -m trnsim is the command"),
    "compiler/ncc/calls.py": ("compiler/ncc/test_call_checks.py", "what these checks read"),
    **{
        f"behaviours/{family}.py": ("behaviours/test_table.py", "rows of the table")
        for family in (*("collectives", "compiler", "grids", "scalars", "scheduling"),)
    },
    "compiler/flag_table.py": ("compiler/test_flags.py", "the flags, of which it is the table"),
    "cli/k8s_options.py": ("cli/test_k8s.py", "options of its commands"),
    "cli/demo.py": ("cli/test_main.py", "it prints what other rooms answer"),
    **{
        f"graph/ops/{family}.py": ("graph/test_oracle.py", "references against an oracle of JAX")
        for family in (
            *("arithmetic", "bits", "collectives", "comparison", "control_flow", "elementwise"),
            *("functions", "layout", "leaves", "lookup", "reductions", "rounding"),
        )
    },
    "instance/shell/bin/neuron-monitor-prometheus.py": (
        "instance/shell/test_session.py",
        "a name of a command",
    ),
    "instance/shell/bin/neuron-monitor-k8s-info.py": (
        "instance/shell/test_session.py",
        "a name of a command",
    ),
    "graph/ops/calls.py": ("torch/dispatch/test_nki_calls.py", "a call is a kernel of the user's"),
    "nki/aliases/neuron_dtypes.py": ("nki/test_aliases.py", "the aliases are tested as imported"),
    "nki/aliases/neuronxcc/nki/typing.py": ("nki/test_aliases.py", "likewise"),
    "nki/aliases/neuronxcc/starfish/support/dtype.py": ("nki/test_aliases.py", "likewise"),
    "nki/aliases/neuronxcc/starfish/support/util.py": ("nki/test_aliases.py", "likewise"),
    "nki/aliases/older_language.py": ("behaviours/test_language.py", "a row of its table"),
    "nki/aliases/nki_cpu_simulator.py": ("nki/test_aliases.py", "likewise"),
    "nki/compiler/frontend.py": ("nki/test_compiler.py", "the compiler is its frontend"),
    "isa/collectives/channels.py": ("isa/collectives/test_implicit.py", "whose channels they are"),
    "isa/collectives/dimensions.py": ("isa/collectives/test_movement.py", "and test_reduction.py"),
    "isa/collectives/setting.py": ("isa/collectives/test_collective.py", "a part of each"),
    "nki/builtin_buffers.py": ("behaviours/test_language.py", "a row of its table"),
    "nki/isa/older.py": ("behaviours/test_instructions.py", "calls by version of NKI"),
    "nki/isa/constants.py": ("nki/test_constants.py", "the same enumerations as nki.isa"),
    "lower/emit/attending/operands.py": (
        "lower/emit/attending/test_attention.py",
        "what attention reads is read by attention",
    ),
    "jobs/assumption.py": ("jobs/test_price.py", "what a price assumes"),
    "jobs/plans.py": ("jobs/test_price.py", "a price is made of a plan"),
    "jobs/role_price.py": ("jobs/test_price.py", "a price is that of roles"),
    "jobs/finding.py": ("jobs/test_rules.py", "what rules answer"),
    "jobs/field_fault.py": ("jobs/test_field_types.py", "what the tables of fields answer"),
    "jobs/rules/fields.py": ("jobs/test_field_types.py", "findings of the tables of fields"),
    "jobs/device_claim.py": ("jobs/formats/test_resource_claims.py", "what a template states"),
    "jobs/formats/batch_definition.py": ("jobs/formats/test_batch.py", "a part of each definition"),
    "jobs/formats/format.py": ("jobs/test_formats.py", "what a format is"),
    "jobs/formats/kubeflow.py": ("jobs/formats/test_pytorchjob.py", "and test_mpijob.py: a kind"),
    **{
        f"jobs/formats/{part}.py": ("jobs/formats/test_pod.py", "a part of every manifest")
        for part in ("pod_template", "pod_template_writing")
    },
    "demo/claims_section.py": ("demo/test_demo.py", "the demo is tested as a whole"),
    "demo/cost_section.py": ("demo/test_demo.py", "the demo is tested as a whole"),
    "demo/examples.py": ("demo/test_demo.py", "the demo is tested as a whole"),
    "demo/kernel_section.py": ("demo/test_demo.py", "the demo is tested as a whole"),
    "demo/mistake_section.py": ("demo/test_demo.py", "the demo is tested as a whole"),
    "demo/training_section.py": ("demo/test_demo.py", "the demo is tested as a whole"),
    "workload/expert_rules.py": ("workload/test_mlp.py", "rules that experts follow there"),
    "workload/families/decoder_rows.py": (
        "workload/families/test_decoders.py",
        "the rows that it reads; tests/clients/test_workload_counts.py counts each",
    ),
    "torch/models/diffusion.py": (
        "clients/test_workload_graphs.py",
        "it builds models of diffusers",
    ),
    "torch/models/phases.py": ("clients/test_model_graphs.py", "it calls models of transformers"),
    "torch/aten/decomposition.py": ("torch/aten/test_operator_call.py", "what it refuses, and why"),
    "torch/pytorch.py": ("torch/test_backend.py", "PyTorch's own types under our names"),
    **{
        f"xla/neuronx/by_name/{part}.py": ("xla/neuronx/test_names.py", "its names")
        for part in (
            *("contexts", "testing/validation", "utils/utils"),
            *("proto/metaneff_pb2", "pyhlo/hlo_pb2", "pyhlo/xla_data_pb2"),
            "experimental/profiler/v2_x/custom_op_name",
            *(
                f"xla_impl/{name}"
                for name in (
                    *("base", "bucket_trace", "custom_call_targets", "custom_op", "data_parallel"),
                    *("ops", "structure", "torchscript", "trace"),
                )
            ),
        )
    },
    "xla/by_name/distributed/spmd.py": ("xla/test_absent_names.py", "its names are refused"),
    "xla/sharding.py": (
        "xla/by_name/distributed/fsdp/test_xla_fully_sharded_data_parallel.py",
        "the shares of a wrapper",
    ),
    "xla/by_name/distributed/xla_backend.py": ("xla/test_ranks.py", "it registers the group"),
    "xla/by_name/experimental/pjrt_backend.py": ("xla/test_ranks.py", "likewise"),
    "xla/by_name/experimental/pjrt.py": ("xla/by_name/test_runtime.py", "the runtime's names"),
    "torch/versions.py": ("torch/test_backend.py", "a check made when the backend loads"),
}

# Makers of pages without a test in tests/makers: which test covers them, and why.
MADE = {
    "jax_ops.py": ("jax/stablehlo/test_jax_ops.py", "it asks JAX for the dialect"),
    "ncc_absent.py": ("compiler/ncc/test_errors.py", "with those that arise, it has every code"),
    "ncc_errors.py": ("test_pages.py", "the page is compared with the one in docs"),
    "ncc_programs.py": ("compiler/ncc/test_errors.py", "each raises the error it is of"),
    "user_files.py": ("test_pages.py", "the page is compared with the one in docs"),
    "pages.py": ("test_pages.py", "the pages that it writes are compared"),
}


def mirror(file):
    """Where the test of a source file lies."""
    path = Path(file)
    return TESTS / path.parent / f"test_{path.name}"


def nodes(file):
    """Kind of node -> those of a source file."""
    return trees.nodes(SOURCE / file)


def lengths(file):
    """Each function of a file with its lines of code, less those of its docstring."""
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef):
        for node in nodes(file).get(kind, ()):
            documented = ast.get_docstring(node) is not None
            first = node.body[0].end_lineno if documented else node.lineno
            yield f"{file}:{node.lineno} {node.name}", node.end_lineno - first


@pytest.fixture(scope="module", autouse=True)
def parsed():
    """Parses the source before the tests of it."""
    for file in FILES:
        nodes(file)


def test_every_source_file_has_a_test_that_mirrors_it_or_covers_it():
    lacking = []
    for file in FILES:
        test, _ = COVERED.get(file, (mirror(file).relative_to(TESTS), ""))
        if not file.endswith("__init__.py") and not (TESTS / test).is_file():
            lacking.append(f"src/trnsim/{file} has no tests/{test}")
    assert lacking == []


def test_every_maker_of_a_page_has_a_test():
    names = sorted(path.name for path in MAKERS.glob("*.py"))
    assert names
    for name in names:
        test, _ = MADE.get(name, (f"makers/test_{name}", ""))
        assert (TESTS / test).is_file(), f"docs/makers/{name} has no tests/{test}"
    assert set(MADE) <= set(names)


def test_what_is_said_to_be_covered_exists_and_has_no_mirror():
    for file, (_, reason) in COVERED.items():
        assert file in FILES, f"{file} is listed and gone"
        assert not mirror(file).exists(), f"{file} has a test of its own by now"
        assert reason


def test_no_source_file_is_longer_than_five_hundred_lines():
    counted = {
        file: len((SOURCE / file).read_text(encoding="utf-8").splitlines()) for file in FILES
    }
    assert {file: lines for file, lines in counted.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_sixty_lines_of_code():
    counted = dict(one for file in FILES for one in lengths(file))
    assert len(counted) > len(FILES)
    assert {name: lines for name, lines in counted.items() if lines > MAX_FUNCTION_LINES} == {}


def test_every_source_file_says_what_it_is_for():
    assert [file for file in FILES if not ast.get_docstring(trees.tree(SOURCE / file))] == []


def test_modules_that_tests_share_have_names_of_their_own():
    """Pytest imports them by name alone, so that of two the first one imported would serve both."""
    named = [
        file.name
        for file in TESTS.rglob("*.py")
        if not file.name.startswith(("test_", "__init__", "conftest"))
    ]
    assert sorted(named) == sorted(set(named))
    bench = TESTS.parent / "bench"  # tests import these two folders' modules
    timed = {file.name for name in ("accuracy", "system") for file in (bench / name).rglob("*.py")}
    assert not timed.intersection(named)


@pytest.mark.parametrize("room", ["lower", "compiler"])
def test_a_folder_of_lowering_has_at_most_15_files(room):
    folders = Counter(file.rpartition("/")[0] for file in FILES if file.startswith(f"{room}/"))
    assert {folder: count for folder, count in folders.items() if count > MAX_FOLDER_FILES} == {}
