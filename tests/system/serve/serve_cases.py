"""Deployments and loads that several tests of serving use."""

from dataclasses import replace
from pathlib import Path

from trnsim.place.machine import machine
from trnsim.system.serve.capacity import LoadTest, RequestPattern
from trnsim.system.serve.events import Router
from trnsim.system.serve.load import Lengths, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy
from trnsim.workload.config import read

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
DRAWN = Synthetic(Lengths("fixed", 256), Lengths("fixed", 32), 100, rate_per_s=1.0)
PATTERN = RequestPattern(DRAWN, None, 288)


def deployed(on="trn1", **more):
    """A deployment of short sequences."""
    options = {"tensor": 8, "max_num_seqs": 4, "max_model_len": 288, "prompts_at_once": 1} | more
    return deploy(LLAMA, machine(on), ServerOptions(**options))


def load_test(deployment=None, *, seed=0, router=Router.ROUND_ROBIN):
    """A load test of a deployment."""
    pattern = RequestPattern(replace(DRAWN, seed=seed), None, 288)
    return LoadTest(deployment or deployed(), pattern, router)


def measured_capacity(test, slo, guess_per_s):
    """The capacity of a load test within an SLO."""
    return test.final_capacity(slo, *test.highest_rate_in_long_runs(slo, guess_per_s))
