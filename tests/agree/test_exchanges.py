"""One collective: what a graph, a kernel, an eager program, JAX and plans say of it, by floor."""

import json

import pytest
from small_models import LLAMA
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.device import rank_placement
from trnsim.device.collective_log import CollectiveCall, collectives_blocks
from trnsim.device.configured import model_of_config
from trnsim.device.device_core import logical_config, target, visible_cores
from trnsim.device.model_report import exchange_time
from trnsim.document.text import section_text
from trnsim.estimate.question import answer
from trnsim.fabric.floors import Floor
from trnsim.lower import GraphExchange, without_exchanges
from trnsim.place.links import Spread, exchange
from trnsim.place.machine import machine
from trnsim.workload.shape import ModelShape

NBYTES = 1 << 18
INSTANCES = {"trn1": ("trn1.32xlarge", 1, 32), "trn2": ("trn2.48xlarge", 2, 64)}


CACHED = (
    rank_placement.world_fabric,
    rank_placement._cached_time,
    visible_cores,
    logical_config,
    target,
)


UNSET = (
    *("LOCAL_WORLD_SIZE", "LOCAL_RANK"),
    *("NEURON_RT_VISIBLE_CORES", "NEURON_LOGICAL_NC_CONFIG"),
)


@pytest.fixture(params=INSTANCES)
def world(request, monkeypatch):
    """A chip, its instance, and cores of a rank: the world has all ranks of the instance."""
    instance, lnc, ranks = INSTANCES[request.param]
    for name, value in {"TRNSIM_INSTANCE": instance, "WORLD_SIZE": ranks}.items():
        monkeypatch.setenv(name, str(value))
    for name in (
        "LOCAL_WORLD_SIZE",
        "LOCAL_RANK",
        "NEURON_RT_VISIBLE_CORES",
        "NEURON_LOGICAL_NC_CONFIG",
    ):
        monkeypatch.delenv(name, raising=False)
    for cached in CACHED:
        cached.cache_clear()
    yield request.param, instance, lnc, ranks
    for cached in CACHED:
        cached.cache_clear()


def planned(instance, ranks):
    """What `trnsim plan collective` says, as JSON."""
    words = ["plan", "collective", "all_reduce", "--on", instance, "--ranks", str(ranks)]
    found = CliRunner().invoke(app, [*words, "--bytes", str(NBYTES), "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_one_collective_takes_one_time_by_floor(world):
    chip, instance, lnc, ranks = world
    plan = planned(instance, ranks)
    group = tuple(range(ranks))
    inside_s = plan["latency_s"] + plan["bytes_s"]
    graph = exchange_time(GraphExchange("all_reduce", NBYTES, (group,)), chip, lnc)
    of_jax = rank_placement.placed_time("all_reduce", NBYTES, [group], chip, Floor.PROGRAM)
    of_plans = exchange(instance, lnc, "all_reduce", NBYTES, Spread(ranks))
    for found in (graph.time_s, of_jax.time_s, of_plans.time_s):
        assert found == pytest.approx(inside_s, rel=1e-9)
    eager = rank_placement.placed_time("all_reduce", NBYTES, [group], chip)
    assert eager.time_s == pytest.approx(max(plan["host_start_s"], inside_s))
    assert eager.time_s > 5 * inside_s


def test_each_report_names_its_floor(world):
    chip, _, _, ranks = world
    group = tuple(range(ranks))
    for floor in Floor:
        log = [CollectiveCall("allreduce", NBYTES, group, floor)]
        text = section_text("", collectives_blocks(log, chip))
        assert text.splitlines()[0].endswith(f"on {chip}, {floor.value}")


@pytest.mark.parametrize("chip", ["trn1", "trn2", "inf2"])
def test_exchanges_of_a_compiled_model_are_those_of_its_plan(chip, tmp_path, monkeypatch):
    """In one proportion for any number of ranks: the answer scales all parts of a chip alike."""
    monkeypatch.delenv("TRNSIM_INSTANCE", raising=False)
    path = tmp_path / "llama.json"
    path.write_text(json.dumps(LLAMA))
    where = machine(chip)
    ratios = set()
    for ranks in (2, 4):
        subject = model_of_config(path, ModelShape("prefill", 1, 64, 0, ranks), "bfloat16")
        _, exchanges = without_exchanges(subject.model_graph.graph)
        fabric_s = sum(exchange_time(one, chip, where.lnc).time_s for one in exchanges)
        ratios.add(round(answer(subject.ask(where, False)).parts_s["exchanges"] / fabric_s, 6))
    assert len(ratios) == 1
