"""The commands that can be asked for the time of a pass, as functions of one case.

Each gives an `Estimate`, and the parts in which its question is a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trnsim.decide import inventory
from trnsim.decide.times.predict import Predictor
from trnsim.estimate.estimate import Estimate
from trnsim.place.machine import machine
from trnsim.system.infer.estimate import estimate as infer
from trnsim.system.infer.parts import InputSizes
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy
from trnsim.system.train.layout import Layout
from trnsim.system.train.step import TrainingSteps
from trnsim.workload.architecture import Architecture
from trnsim.workload.captured import workload
from trnsim.workload.config import read

SHARE = 0.01
"""By which two answers may differ."""
SERVER = frozenset({"host"})
STEP = frozenset({"data", "optimizer", "bubble", "host"})
"""Parts that a plan's question has, and a pass alone has not."""


@dataclass(frozen=True)
class Case:
    """A pass of a model on a chip.

    Attributes:
        model: its name.
        path: its config.json.
        chip: a target.
        phase: encode, prefill, decode or train.
        batch: sequences or images.
        sequence: tokens of each; in decode, keys in the cache.
        ranks: ranks that divide a layer among them.
        has_text: whether it reads texts.
    """

    model: str
    path: Path
    chip: str
    phase: str
    batch: int
    sequence: int
    ranks: int = 1
    has_text: bool = True

    @property
    def text(self) -> str:
        """What is asked, in words."""
        shape = f"{self.phase}, {self.batch} x {self.sequence}, {self.ranks} ranks"
        return f"{self.model} on {self.chip}, {shape}"


@dataclass(frozen=True)
class Answer:
    """What a command says of a case.

    Attributes:
        command: its name.
        estimate: the time.
        beyond: parts that only its question has.
    """

    command: str
    estimate: Estimate
    beyond: frozenset[str] = frozenset()

    @property
    def shared(self) -> Estimate:
        """What all commands were asked."""
        kept = {name: one for name, one in self.estimate.parts_s.items() if name not in self.beyond}
        return Estimate(kept, self.estimate.errors_s, self.estimate.sources)


def plans(case: Case) -> list[Answer]:
    """What plans and the decision say of a case.

    Raises:
        EmulatorError: it does not fit, or the model has no such pass.
    """
    if case.phase == "encode":
        has_formula = isinstance(workload(case.path), Architecture)  # what inventories take
        return [_infer(case), *([_assess(case)] if has_formula else [])]
    return [_train(case)] if case.phase == "train" else [_serve(case)]


def _infer(case: Case) -> Answer:
    sequence = case.sequence if case.has_text else None
    found = infer(case.path, case.chip, InputSizes(case.batch, sequence), cores=1)
    return Answer("plan infer", found.estimate)


def _assess(case: Case) -> Answer:
    """A decision's milliseconds of a batch; its doubt is that of the plan."""
    where = machine(case.chip).instance.name
    kept = f"  sequence: {case.sequence}\n" if case.has_text else ""
    file = case.path.with_name(f"{case.path.stem}-inventory.yaml")
    file.write_text(
        f"- workload: it\n  model_config: {case.path.name}\n  kind: infer\n"
        f"  items_per_month: 1000000\n  current_instance: p5en.48xlarge\n  usd_per_month: 1000\n"
        f"  batch: {case.batch}\n{kept}",
        encoding="utf-8",
    )
    (workload,) = inventory.read(file)
    speed = Predictor().speed(workload, where).speed
    assert speed is not None
    parts = {name: ms / 1e3 for name, ms in speed.ms.items()}
    sigma = sum(one**2 for one in speed.sigmas.values()) ** 0.5
    return Answer("assess", Estimate(parts, {"doubts": sigma * sum(parts.values())}))


def _serve(case: Case) -> Answer:
    is_step = case.phase == "decode"
    longest = case.sequence + 1
    options = ServerOptions(
        tensor=case.ranks, pipeline=1, max_num_seqs=case.batch, max_model_len=longest
    )
    steps = deploy(read(case.path), machine(case.chip), options).steps
    if is_step:
        return Answer("plan serve", steps.decode(case.batch, longest), SERVER)
    return Answer("plan serve", steps.prefill(case.batch, case.sequence, 0), SERVER)


def _train(case: Case) -> Answer:
    where = machine(case.chip)
    data = where.ranks // case.ranks
    layout = Layout(
        tensor=case.ranks,
        data=data,
        micro_batch=case.batch,
        global_batch=case.batch * data,
        sequence=case.sequence,
        recompute="none",
    )
    return Answer("plan train", TrainingSteps(read(case.path), where).step(layout).estimate, STEP)


def faults(answers: list[Answer]) -> list[str]:
    """In what answers to one case differ by more than `SHARE`, beside the parts that are named."""
    first, *others = answers
    found = []
    for other in others:
        names = f"{first.command} and {other.command}"
        one, two = _times(first), _times(other)
        for quantile in one:
            low, high = sorted((one[quantile], two[quantile]))
            if high > (1 + SHARE) * low:
                found.append(f"{names}: {quantile} {1e3 * low:.4g} and {1e3 * high:.4g} ms")
    return found


def _times(answer: Answer) -> dict[str, float]:
    """P10, P50 and P90 of what all were asked: all but the host's part of a plan errs alike."""
    whole, shared = answer.estimate, answer.shared
    host_s = whole.parts_s.get("host", 0.0) if "host" in answer.beyond else 0.0
    errors = [one for name, one in whole.errors_s.items() if name != "host"]
    spread = sum(one**2 for one in errors) ** 0.5 / (whole.time_s - host_s)
    alone = Estimate(shared.parts_s, {"shared": spread * shared.time_s})
    return {"p10": alone.quantile_s("p10"), "p50": alone.time_s, "p90": alone.quantile_s("p90")}


def told(answers: list[Answer]) -> str:
    """The answers and what parts tell them apart, in words."""
    words = []
    for one in answers:
        beyond = ", ".join(
            f"{name} {1e3 * one.estimate.parts_s[name]:.3g}"
            for name in sorted(one.beyond)
            if one.estimate.parts_s.get(name)
        )
        words.append(
            f"{one.command} {1e3 * one.estimate.time_s:.4g}" + (f" ({beyond})" if beyond else "")
        )
    return ", ".join(words) + " ms"
