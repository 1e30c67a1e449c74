"""Times of a server outside the model: host, loading of weights, compiling.

A request waits for the host in three places: between two steps (a pass of the scheduler, copies,
and the sampled token and text of each sequence), before it enters the queue (network, tokenizer),
and after its first token (network).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.facts import Rate, assumed, derived, documented
from trnsim.place.machine import Machine

UTILIZATION: Final = documented(
    0.9, "vllm-neuron/docs/guides/reference-configuration.md and vLLM: default of both"
)
NEURON_HOST_S: Final = assumed(
    0.0,
    "asynchronous scheduling is on by default and hides the host; what it does not hide is in the "
    "fixed time of layers, which is fitted to steps of whole servers",
)
PORTED_HOST_S: Final = derived(
    1.7e-3,
    "a step of the DeepSeek-V3 port takes 22.2 ms with vLLM and 20.5 ms in its own loop "
    "(aws-neuron/neuronx-distributed-inference, contrib/models/DeepSeek-V3)",
)
GPU_HOST_S: Final = assumed(
    1e-3, "a pass of vLLM's scheduler, and copies of inputs and results; nobody publishes it"
)
GPU_SEQUENCE_S: Final = assumed(
    10e-6,
    "a sequence's token in a step: its sampled number, text and output, in Python; nobody "
    "publishes it",
)
REQUEST_S: Final = assumed(
    2e-3,
    "a request's way to the server and its first token's way back within a region, and its parsing",
)
TOKENIZER_TOKEN_S: Final = assumed(
    1e-6, "Hugging Face's tokenizers split about a million tokens a second on one core"
)
LOAD_BYTES_PER_S: Final = derived(
    750e9 / (17.5 * 60),
    "Llama-3.1-405B, 750 GB, from disk to device in 15 to 20 minutes "
    "(vllm-neuron/docs/design/framework/checkpoint_loading.md)",
)
COMPILE_LAYER_S: Final = derived(
    17.5 * 60 / 2 / 80,
    "two graphs of a 70B model of 80 layers in 15 to 20 minutes "
    "(vllm-neuron/docs/tutorials/tutorial-llama3-70b.md)",
)


@dataclass(frozen=True)
class HostTimes:
    """Host time that the devices do not hide.

    Attributes:
        step_s: seconds between two steps.
        sequence_s: seconds between two steps for each running sequence: sampling, text, output.
        request_s: seconds for each request, outside of steps: network and parsing.
        token_s: seconds for each token of a prompt, outside of steps: tokenizer.
    """

    step_s: Rate
    sequence_s: Rate
    request_s: Rate = REQUEST_S
    token_s: Rate = TOKENIZER_TOKEN_S

    def step_overhead_s(self, sequences: float) -> float:
        """Seconds of host time between two steps of `sequences` running sequences."""
        return self.step_s + sequences * self.sequence_s

    def request_overhead_s(self, tokens: int) -> float:
        """Seconds of host time, outside of steps, of a request with a prompt of `tokens` tokens."""
        return self.request_s + tokens * self.token_s

    @property
    def facts(self) -> dict[str, Rate]:
        """The times by the names that reports print; a sequence's is left out where it is 0."""
        sequence = {"host s of a sequence": self.sequence_s} if self.sequence_s else {}
        return {
            "host s": self.step_s,
            **sequence,
            "host s of a request": self.request_s,
            "host s of a token of a prompt": self.token_s,
        }


_HIDDEN: Final = assumed(0.0, "hidden by asynchronous scheduling, as the host's other time is")


def host_times(machine: Machine, *, is_ported: bool = False) -> HostTimes:
    """Default host times of a machine.

    Args:
        machine: the machine.
        is_ported: True for an untuned port of a model, in which no step hides the host's time.
    """
    if not machine.is_neuron:
        return HostTimes(GPU_HOST_S, GPU_SEQUENCE_S)
    return HostTimes(PORTED_HOST_S if is_ported else NEURON_HOST_S, _HIDDEN)


def user_host_times(step_s: float) -> HostTimes:
    """Host times of a user who states the time between two steps, for any number of sequences."""
    step, sequence = (derived(time_s, "--host-time", spread=0.0) for time_s in (step_s, 0.0))
    return HostTimes(step, sequence)
