"""Replicas and sequences whose steps tests make one by one."""

from trnsim.system.serve.engine import Engine, powers_of_two
from trnsim.system.serve.load import Request
from trnsim.system.serve.replicas import replica_of
from trnsim.system.serve.sequence import Sequence


class Costs:
    def prefill(self, *_):
        return 1.0

    def decode(self, *_):
        return 0.125

    def mixed(self, *_):
        return 1.125


def replica(is_compiled=True, sequences=4, longest=256, **more):
    given = {
        "is_compiled": is_compiled,
        "max_num_seqs": sequences,
        "max_model_len": longest,
        "max_num_batched_tokens": sequences * longest,
        "prompts_at_once": sequences,
        "buckets": powers_of_two(128, longest),
        "batches": (sequences,),
        "block_tokens": 16,
        "blocks": sequences * longest // 16,
    }
    return replica_of(Engine(**(given | more)), Costs())


def sequence(place, inputs, outputs, prefix="", prefix_tokens=0):
    return Sequence(place, Request(0.0, inputs, outputs, prefix, prefix_tokens), outputs - 1)
