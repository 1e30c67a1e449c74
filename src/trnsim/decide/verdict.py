"""The verdict about a workload: a rule that forbids a move, else the draws of the best placement.

The best placement is the one with AWS's chips that saves most at P50. Its verdict:

    go           it pays back in at least `SURE` of the draws, its family of published times is
                 validated on that chip, the bill agrees with the prediction, and no GPU saves more
    pilot        it pays back in at least `LIKELY` of the draws, but another condition of go fails
    needs-quote  no placement on sale pays back, but one would at the price of another purchase kind
    no-go        otherwise, on GPUs today
    stay         otherwise, on AWS's chips today

It is a close call if the sampling error of the share covers a threshold, or if the share is below
`LIKELY` although the move pays back in time at the medians of all inputs. The safer verdict stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.decide.candidates import WorkloadPlacement
from trnsim.decide.decision import Candidate, Ruling, Verdict
from trnsim.decide.draws import is_close
from trnsim.decide.rules import FORBIDS
from trnsim.facts import assumed

SURE: Final = assumed(0.9, "share of draws for a move: a decision that is rarely regretted")
LIKELY: Final = assumed(0.5, "share of draws for a pilot: as likely as not")
MOST_BILL_RATIO: Final = assumed(
    3, "an idle fleet, a discount and an error of the model together; beyond, a figure is wrong"
)
EQUAL_SAVING: Final = assumed(
    0.02, "savings no further apart are equal; a validated place is then taken"
)

Pair = tuple[WorkloadPlacement, Candidate]
"""A placement, and its figures as a candidate of the decision."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, its reason, and the instance that it is about.

    Attributes:
        best: instance type to which the workload may move; None if the verdict is against a move.
    """

    verdict: Verdict
    is_close_call: bool
    reason: str
    best: str | None


def best(pairs: Sequence[Pair]) -> Pair | None:
    """Pair with AWS's chips that saves most at P50; None if no such pair has a price."""
    return _pair_of_most(
        [
            (move.saving.p50, (place, move))
            for place, move in _open_pairs(pairs)
            if move.saving is not None
        ]
    )


def quotable(pairs: Sequence[Pair]) -> Pair | None:
    """Pair with AWS's chips, not sold at today's kind, that saves most at a public price."""
    savings: list[tuple[float, Pair]] = []
    for place, move in _open_pairs(pairs):
        limit, public = move.break_even_usd_per_hour, place.reference
        if move.price is not None or limit is None or public is None or public.usd_per_hour is None:
            continue
        if public.usd_per_hour < limit:
            savings.append((1 - public.usd_per_hour / limit, (place, move)))
    return _pair_of_most(savings)


def _open_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs to which a move may be recommended."""
    return [
        (place, move)
        for place, move in pairs
        if place.is_neuron and place.is_open and move.refused is None and move.slo != "missed"
    ]


def _pair_of_most(ranked_pairs: list[tuple[float, Pair]]) -> Pair | None:
    """Pair of the largest value; of pairs within `EQUAL_SAVING` of it, a validated pair."""
    if not ranked_pairs:
        return None
    top_value = max(value for value, _ in ranked_pairs)
    equal_pairs = [
        (pair[1].is_validated, value, pair)
        for value, pair in ranked_pairs
        if value >= top_value - EQUAL_SAVING
    ]
    return max(equal_pairs, key=lambda item: item[:2])[2]


def judge(
    pairs: Sequence[Pair],
    rules: Sequence[Ruling],
    *,
    is_neuron_today: bool,
    refused: str | None,
    draws: int,
    limit_months: float,
    bill_ratio: float | None = None,
) -> Judgement:
    """The verdict about a workload.

    Args:
        pairs: placements other than today's, each with its candidate.
        rules: outcomes of the source document's rules.
        is_neuron_today: True if the workload runs on AWS's chips today.
        refused: reason why today's instance cannot be predicted, or None.
        draws: number of draws.
        limit_months: months within which a move must pay back.
        bill_ratio: today's bill over the cost predicted for today's instance, or None.
    """
    adverse_verdict = Verdict.STAY if is_neuron_today else Verdict.NO_GO
    for rule in rules:
        if rule.applies and rule.effect == FORBIDS:
            return Judgement(adverse_verdict, False, f"{rule.name}: {rule.evidence}", None)
    if refused is not None:
        reason = f"today's instance is not predicted: {refused}"
        return Judgement(adverse_verdict, False, reason, None)
    top = best(pairs)
    share = 0.0 if top is None else top[1].share_paying_back or 0.0
    is_near = is_close(share, LIKELY, draws) or (
        top is not None and share < LIKELY and _is_in_time(top[1], limit_months)
    )
    if top is None or share < LIKELY or is_near:
        wanted_quote = quotable(pairs)
        rival_note = "" if is_neuron_today else _rival_note(pairs)
        if wanted_quote is not None and not is_near:
            reason = _quote_reason(wanted_quote) + rival_note
            return Judgement(Verdict.NEEDS_QUOTE, False, reason, wanted_quote[1].instance)
        reason = (
            _closed_reason(pairs) if top is None else _reason_against(top[1], share, limit_months)
        )
        return Judgement(adverse_verdict, is_near, reason + rival_note, None)
    move = top[1]
    is_near = is_close(share, SURE, draws)
    is_sure = share >= SURE and not is_near
    gain = _gain_text(move)
    text = f"{gain} and pays back within {limit_months:.0f} months in {share:.0%} of draws"
    doubts = [] if is_sure else [f"less than the {SURE:.0%} of a move"]
    if not move.is_validated:
        doubts.append(f"plans of {move.family} are not validated there")
    doubts += _odd_bill_doubts(bill_ratio)
    rival = _rival(pairs)
    if rival is not None and _saving_at_p50(rival) > _saving_at_p50(move) + EQUAL_SAVING:
        doubts.append(f"{rival.instance} saves {_saving_at_p50(rival):.0%} with the same programs")
    if not doubts:
        text += f"; {move.family} is validated there"
        return Judgement(Verdict.GO, False, text, move.instance)
    is_close_call = is_near and move.is_validated
    return Judgement(Verdict.PILOT, is_close_call, f"{text}; {' and '.join(doubts)}", move.instance)


def _odd_bill_doubts(bill_ratio: float | None) -> list[str]:
    """Doubt that bill and volume belong together, if the bill is far from the predicted cost."""
    if bill_ratio is None or 1 / MOST_BILL_RATIO <= bill_ratio <= MOST_BILL_RATIO:
        return []
    return [f"the bill is {bill_ratio:.2g} times what its volume takes here: check both"]


def _is_in_time(move: Candidate, limit_months: float) -> bool:
    """True if the move pays back in time at the medians of all inputs."""
    months = None if move.pays_back_months is None else move.pays_back_months.p50
    return months is not None and months <= limit_months


def _rival(pairs: Sequence[Pair]) -> Candidate | None:
    """GPU candidate that saves most and pays back in at least `LIKELY` of the draws."""
    rivals = [
        move
        for place, move in pairs
        if not place.is_neuron
        and move.slo != "missed"
        and (move.share_paying_back or 0.0) >= LIKELY
    ]
    return max(rivals, key=_saving_at_p50, default=None)


def _rival_note(pairs: Sequence[Pair]) -> str:
    """Note on a GPU instance that pays back where no move to AWS's chips does; "" without one."""
    rival = _rival(pairs)
    if rival is None or _saving_at_p50(rival) <= EQUAL_SAVING:
        return ""
    return f"; {rival.instance} saves {_saving_at_p50(rival):.0%} with the same programs"


def _saving_at_p50(move: Candidate) -> float:
    return 0.0 if move.saving is None else move.saving.p50


def _gain_text(move: Candidate) -> str:
    return f"{move.instance} saves {_saving_at_p50(move):.0%} at P50"


def _quote_reason(pair: Pair) -> str:
    place, move = pair
    limit, public = move.break_even_usd_per_hour, place.reference
    usd = 0.0 if public is None or public.usd_per_hour is None else float(public.usd_per_hour)
    kind = "" if public is None else public.kind
    return (
        f"{move.instance} pays back below {limit:.2f} USD/h, and {move.no_price}; "
        f"a {kind} costs {usd:.2f} USD/h: ask for a price"
    )


def _closed_reason(pairs: Sequence[Pair]) -> str:
    """Reason against all of AWS's chips, where no pair to which a move may be recommended is sold.

    It names the instance of other AWS chips that saves most, and why none moves there.
    """
    reason = "no instance with AWS's chips can run it at a price of the same kind"
    closed_candidates = [
        (move.saving.p50, move.instance, place.notes[0])
        for place, move in pairs
        if place.is_neuron and not place.is_open and move.saving is not None
    ]
    if not closed_candidates:
        return reason
    _, instance, note = max(closed_candidates)
    return f"{reason}, except {instance}, which is {note}"


def _reason_against(move: Candidate, share: float, limit_months: float) -> str:
    if move.saving is None or move.saving.p50 <= 0:
        extra_cost = 0.0 if move.saving is None else -move.saving.p50
        return f"{move.instance}, the cheapest, costs {extra_cost:.0%} more than today at P50"
    gain = _gain_text(move)
    return f"{gain}, and pays back within {limit_months:.0f} months in {share:.0%} of draws"
