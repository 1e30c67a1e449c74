"""What nki-library's own harness lacks to run in simulation mode, supplied from outside.

The public repository (tag 2.29) imports two modules that it does not hold, and reads an attribute
that simulation mode never sets. A pytest plugin puts them there; nothing of the suite is edited.
"""

import enum
import sys
import types
from pathlib import Path

import nki  # noqa: F401  it must be importable before the harness aliases it
import numpy as np

import trnsim


class _Answer:
    """Anything that is asked of a module that is not public."""

    def __getattr__(self, name):
        return None


def _module(name, **contents):
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


class LockStatus(enum.Enum):
    """Of locks on remote accelerators, which simulation never takes."""

    SUCCESS = 0
    FAILURE = 1


_module("test.utils.scripts")
_module(
    "test.utils.scripts.remote_lock_scripts",
    LockStatus=LockStatus,
    LockResult=type("LockResult", (), {}),
)
_module("test.utils.perf_analysis_private", analyze_trace=lambda *_, **__: _Answer())


def pytest_collection_finish(session):
    """Simulation mode never compiles, so nothing was compiled."""
    del session
    from test.utils.test_orchestrator import Orchestrator  # noqa: PLC0415

    Orchestrator._compiled_kernel = None
    _supply_ranks()


def _supply_ranks():
    """Run cases of several ranks in a world, which simulation mode has not; others as they are.

    Outputs of rank N go to the folder `output_worker_N`, as those of its chip runs do.
    """
    from test.utils import simulation_setup  # noqa: PLC0415
    from test.utils.common_dataclasses import normalize_golden_output  # noqa: PLC0415
    from test.utils.test_orchestrator import INF_ARTIFACT_DIR_NAME, Orchestrator  # noqa: PLC0415

    alone = simulation_setup.run_simulator_inference

    def run(case):
        count = case.inference_args.collective_ranks
        if count == 1:
            return alone(case)
        compiled = case.compiler_input
        lnc = compiled.logical_nc_config
        world = trnsim.run(
            case.kernel_func[lnc],
            ranks=count,
            inputs=lambda rank: _inputs_of(case.kernel_input, rank),
            target=_TARGETS[compiled.platform_target.get_nc_gen()],
            lnc=lnc,
            races="warn",
        )
        outputs = {}
        for rank, result in enumerate(world.outputs):
            golden = normalize_golden_output(case.validation_args.golden_output, rank)
            arrays = result if isinstance(result, list | tuple) else [result]
            for (name, like), array in zip(golden.items(), arrays, strict=True):
                outputs[f"output_worker_{rank}/{name}"] = np.asarray(array, dtype=like.dtype)
        return outputs

    dump = Orchestrator._dump_output_tensors

    def dumped(self, outputs):
        folder = Path(self.fs_config.artifacts_output_directory_path) / INF_ARTIFACT_DIR_NAME
        for name in outputs:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        return dump(self, outputs)

    simulation_setup.run_simulator_inference = run
    Orchestrator._dump_output_tensors = dumped


def _inputs_of(given, rank):
    """The arguments of one rank, by parameter."""
    found = given.for_rank(rank) if hasattr(given, "for_rank") else given
    return {name.removesuffix(".must_alias_input"): value for name, value in found.items()}


_TARGETS = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}
