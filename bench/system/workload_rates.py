"""Ten workloads, and how much of each an instance does in a second by the planner's models.

Chosen before any figure was seen: the kinds that the documents name (pretraining, GPTs, Llama,
experts, BERT, vision, several modes), small and large, for training and for inference. Stable
Diffusion XL, which the notes name, is left out: its network has no formula here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.estimate.choice import facts as layer_facts
from trnsim.facts import Evidence
from trnsim.place.machine import machine
from trnsim.system.infer.estimate import estimate as infer
from trnsim.system.infer.parts import InputSizes
from trnsim.system.serve.demand import saturating_demand
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan
from trnsim.system.train.best import Effort
from trnsim.system.train.estimate import estimate as train
from trnsim.workload import config
from trnsim.workload.operators import Phase

if TYPE_CHECKING:
    from pathlib import Path

_TOKENS: Final = 1e9
_EFFORT: Final = Effort(budget=8)
"""Layouts that are timed: the same number everywhere."""


_USUAL: Final = InputSizes()


@dataclass(frozen=True)
class Workload:
    """What is computed, and why it is in the set.

    Attributes:
        name: of the workload.
        does: "train", "serve" or "infer".
        config: below bench/system/configs.
        why: it is in the set.
        asked: what goes through a model that makes no tokens.
    """

    name: str
    does: str
    config: str
    why: str
    asked: InputSizes = _USUAL


WORKLOADS: Final = (
    Workload("train Llama 3 8B", "train", "Llama-3-8B.json", "a model that fits one instance"),
    Workload("train Llama 3 70B", "train", "Llama-3-70B.json", "a model that needs many ranks"),
    Workload("train GPT-3 6.7B", "train", "GPT3-6.7B.json", "the GPT class of the guide"),
    Workload("train BERT large", "train", "bert-large-pretraining.json", "encoders, short inputs"),
    Workload("serve Llama 3 8B", "serve", "Llama-3-8B.json", "chat, 2048 tokens in, 256 out"),
    Workload("serve Llama 3 70B", "serve", "Llama-3-70B.json", "the same, where memory binds"),
    Workload("serve Mixtral 8x7B", "serve", "Mixtral-8x7B.json", "experts, which the guide names"),
    Workload(
        "infer BERT base",
        "infer",
        "bert-base-uncased.json",
        "BERT is the guide's example for Inferentia",
        InputSizes(batch=8, sequence=128),
    ),
    Workload(
        "infer ViT base",
        "infer",
        "google--vit-base-patch16-224.json",
        "vision is the guide's other example",
        InputSizes(batch=8),
    ),
    Workload(
        "infer CLIP base",
        "infer",
        "openai--clip-vit-base-patch32.json",
        "pairs of images and texts, for the multi-modal models of the notes",
        InputSizes(batch=8),
    ),
)
"""In the order in which they are shown."""
LARGE: Final = (
    "trn1.32xlarge",
    "trn2.48xlarge",
    "p4d.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
)
"""Instances that do all ten."""
SMALL: Final = ("inf1.xlarge", "inf2.xlarge", "g4dn.xlarge", "g5.xlarge", "g6.xlarge")
"""Instances of one chip, for what makes no tokens."""


@dataclass(frozen=True)
class Done:
    """How much of a workload one instance does.

    Attributes:
        per_s: tokens or items in a second, per instance.
        instances: that work together.
        assumed: names of the inputs that nobody published.
    """

    per_s: float
    instances: int
    assumed: tuple[str, ...]


def done(workload: Workload, path: Path, instance: str) -> Done:
    """How much of `workload`, whose configuration is at `path`, one `instance` does.

    Raises:
        OutOfMemory: the model has no room there.
    """
    if workload.does == "train":
        run = train(config.read(path), instance, _TOKENS, effort=_EFFORT)
        rate, count = _TOKENS / run.time_s.p50, run.machine.count
        return Done(rate / count, count, _assumed(instance, Phase.TRAIN))
    if workload.does == "serve":
        served = plan(config.read(path), machine(instance), ServerOptions(), saturating_demand())
        rate = served.served.figures["output_tokens_per_s"].p50
        count = served.deployment.instances
        return Done(rate / count, count, _assumed(instance, Phase.DECODE))
    found = infer(path, instance, workload.asked)
    return Done(found.items_per_s.p50, 1, _assumed(instance, Phase.ENCODE))


def instances_of(workload: Workload) -> tuple[str, ...]:
    """Instances whose rates are kept."""
    return LARGE + SMALL if workload.does == "infer" else LARGE


def _assumed(instance: str, phase: Phase) -> tuple[str, ...]:
    """Inputs of times of the phase's layers on the instance's chip that nobody published."""
    facts = layer_facts(machine(instance), phase)
    return tuple(name for name, fact in facts.items() if fact.provenance.kind is Evidence.ASSUMED)
