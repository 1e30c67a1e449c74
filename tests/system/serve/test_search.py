from pathlib import Path

import pytest

from trnsim.errors import BadInput, OutOfMemory
from trnsim.place.machine import machine
from trnsim.system.serve.demand import Slo, saturating_demand
from trnsim.system.serve.load import Lengths, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.search import Search
from trnsim.workload.config import read

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def search(on="trn1", given=None, slo=None, **more):
    options = ServerOptions(**({"max_model_len": 288} | more))
    where, asked = machine(on), saturating_demand(256, 32)
    return Search(LLAMA, where, options, asked, given, slo or Slo(), None).best()


def open_load(rate):
    return Synthetic(Lengths("fixed", 256), Lengths("fixed", 32), 200, rate_per_s=rate).requests(
        288
    )


def test_what_is_set_is_not_searched():
    assert search(tensor=8, max_num_seqs=4).tried == 1
    assert search(tensor=8).tried == 9  # 1 to 256 sequences
    assert search(max_num_seqs=4).tried == 4  # 2, 8, 16 and 32 ranks: one does not hold it


def test_prompts_go_one_at_a_time_unless_a_user_says_more():
    assert search(tensor=8).deployment.engine.prompts_at_once == 1
    assert search(tensor=8, max_num_seqs=4).deployment.engine.prompts_at_once == 1
    more = search(tensor=8, max_num_seqs=4, prompts_at_once=2)
    assert more.deployment.engine.prompts_at_once == 2


def test_of_layouts_that_cost_the_same_the_faster_one_is_taken():
    """A load that any layout keeps up with costs the same on all of them."""
    found = search(given=open_load(1.0))
    assert found.deployment.options.tensor == 32


def test_layouts_that_keep_the_promise_come_first():
    load = open_load(20.0)
    found = search(given=load, slo=Slo(tpot_s=0.012), tensor=8)
    assert found.is_met
    assert found.deployment.engine.max_num_seqs < 64


def test_what_is_refused_first_is_told_where_nothing_fits():
    with pytest.raises(OutOfMemory, match=r"keys and values of 1 x 288 tokens"):
        search("inf1.xlarge")


def test_layouts_of_one_split_share_the_times_of_their_steps():
    options = ServerOptions(max_model_len=288)
    looking = Search(LLAMA, machine("trn1"), options, saturating_demand(256, 32), None, Slo(), None)
    shared = {}
    for deployment in looking.deployments():
        shared.setdefault(deployment.options.tensor, set()).add(id(deployment.steps))
    assert set(map(len, shared.values())) == {1}
    assert set(shared) == {2, 8, 16, 32}


def test_expert_ranks_of_a_model_without_experts_are_refused_before_any_layout():
    options = ServerOptions(expert=128, max_model_len=512)
    with pytest.raises(
        BadInput, match=r"^--expert-parallel-size of 128; .* no experts; legal: 1\n"
    ):
        Search(LLAMA, machine("trn2"), options, saturating_demand(256, 32), None, Slo()).best()
