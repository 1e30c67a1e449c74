"""Options of several ``trnsim plan`` commands, platforms with purchase kinds, and remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from trnsim.arch.catalogue import Catalogue
from trnsim.cli.comparison import Refusal
from trnsim.cli.on import on_option
from trnsim.document.answer import Document, Note, Section
from trnsim.document.figure import pointer
from trnsim.errors import BadInput
from trnsim.estimate.measured import MeasuredTimes, read
from trnsim.fabric.floors import Floor
from trnsim.formatting import enumerated
from trnsim.place.machine import compared_platforms
from trnsim.place.platform import listed_names, platform
from trnsim.price import Quote, caveats, check_kind, credit_lines, priced_kinds
from trnsim.workload.architecture import Architecture
from trnsim.workload.model_names import config_file
from trnsim.workload.resident import active_parameters, parameters

Config = Annotated[
    Path,
    typer.Argument(
        parser=config_file,
        help="A model's name (trnsim models) or id on Hugging Face, or a config.json.",
        metavar="MODEL",
    ),
]
On = Annotated[list[str] | None, on_option(enumerated(compared_platforms(), "and"))]
MeasuredFile = Annotated[
    Path | None,
    typer.Option(
        "--measured", help="A CSV file of your own times of layers, which win.", metavar="FILE.csv"
    ),
]


def size_of(model: Architecture) -> str:
    """A model's parameters in words, with those that a token uses if these are fewer."""
    total, active = parameters(model), active_parameters(model)
    active_words = f", {active / 1e9:.2f} B active" if active != total else ""
    return f"{total / 1e9:.2f} B parameters{active_words}"


def platform_names(on: Sequence[str] | None) -> list[str]:
    """The platforms that `--on` names, each once and as NAME or NAME:KIND of purchase.

    Without `--on`, they are `compared_platforms()`.

    Raises:
        BadInput: `--on` names no platform, or an unknown one.
    """
    words = (word.partition(":") for word in listed_names(on) or compared_platforms())
    names = [f"{platform(name).name}{colon}{kind}" for name, colon, kind in words]
    return list(dict.fromkeys(names))


def purchased_platforms(
    on: Sequence[str] | None, kind: str, *, is_mixed: bool
) -> list[tuple[str, str]]:
    """The platforms that `--on` names, each with its purchase kind: its own, or `--price`'s.

    Raises:
        BadInput: no platform, an unknown kind, or two kinds without `--mixed-prices`.
    """
    names_and_kinds = [
        (name, own_kind or kind)
        for name, _, own_kind in (text.partition(":") for text in platform_names(on))
    ]
    for name, own_kind in names_and_kinds:
        option = f"--price is {own_kind!r}" if own_kind == kind else f"--on {name}:{own_kind}"
        check_kind(own_kind, option)
    if len({own_kind for _, own_kind in names_and_kinds}) > 1 and not is_mixed:
        kinds_text = " against ".join(f"{name} {own_kind}" for name, own_kind in names_and_kinds)
        raise BadInput(
            f"{kinds_text}: different purchase kinds do not compare",
            fix="name one kind, or add --mixed-prices",
        )
    return names_and_kinds


@dataclass(frozen=True)
class PriceRemarks:
    """Prices that are compared, in words, and the remarks beside them.

    Attributes:
        prices: each price, in the order of the quotes.
        caveats: a sentence on several kinds of purchase, or on days that are far apart.
        credits: a line for each credit of the user.
        mark: the text behind each price: " (mixed prices)" for several kinds, else "".
    """

    prices: tuple[str, ...]
    caveats: tuple[str, ...]
    credits: tuple[str, ...]
    mark: str

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The remarks as values of JSON, by field."""
        return {"price_caveats": self.caveats, "credits": self.credits}

    @property
    def notes(self) -> list[Note]:
        """The remarks as the last lines of a text."""
        return [
            Note(text) for text in (*(f"prices: {text}" for text in self.caveats), *self.credits)
        ]


def price_remarks(quotes: Sequence[Quote], rows: Catalogue) -> PriceRemarks:
    """These prices with the remarks beside them, of a catalogue with the user's credits."""
    is_mixed = len({price.kind for price in quotes}) > 1
    return PriceRemarks(
        tuple(map(str, quotes)),
        (*caveats(quotes, is_mixed_on_purpose=True), *_other_kinds(quotes, rows)),
        tuple(credit_lines(rows)),
        " (mixed prices)" if is_mixed else "",
    )


def _other_kinds(quotes: Sequence[Quote], rows: Catalogue) -> Iterator[str]:
    """For each instance without a price of its kind, the kinds in which it has one."""
    for price in dict.fromkeys(quotes):
        if price.usd_per_hour is None:
            kinds = priced_kinds(price.instance, price.as_of, region=price.region, rows=rows)
            if kinds:
                yield (
                    f"{price.instance} has none as {price.kind}, but as {', '.join(kinds)}: "
                    f"--price {kinds[0]}"
                )


def compared_document(
    title: str,
    values: Sequence[dict[str, Any]],
    sections: Sequence[Section],
    remarks: PriceRemarks | None,
    schema: str,
    refusals: Sequence[Refusal] = (),
) -> Document:
    """A document of answers about platforms, below the title those that were refused.

    Its JSON is one object where one platform was asked, otherwise a list. Without prices there are
    no `remarks`.
    """
    refusal_values = {"refused": [refusal.values for refusal in refusals]} if refusals else {}
    price_values = remarks.values if remarks else {}
    answers = [answer | price_values | refusal_values for answer in values]
    notes = [Section("", remarks.notes)] if remarks and remarks.notes else []
    heads = [Section("", [refusal.note for refusal in refusals])] if refusals else []
    return Document(
        title,
        answers[0] if len(answers) + len(refusals) == 1 else answers,
        [*sections[:1], *heads, *sections[1:], *notes],
        schema=schema,
    )


def bound_note(parts_s: Mapping[str, Mapping[str, float]]) -> Note:
    """The largest part of each platform's time, and its share."""
    words = []
    for label, parts in parts_s.items():
        name = max(parts, key=lambda part: parts[part], default="")
        total_s = sum(parts.values())
        words.append(f"{label} {name} ({parts[name] / total_s:.0%})" if total_s else f"{label} -")
    return Note(f"bound by: {', '.join(words)}")


def answer_pointer(number: int, count: int, *steps: str) -> str:
    """The JSON pointer of a field of answer `number`, as in `compared_document`.

    `count` is the number of platforms that were asked, refused ones included.
    """
    return pointer(*steps) if count == 1 else pointer(number, *steps)


def measured_table(file: Path | None, names: Sequence[str]) -> MeasuredTimes | None:
    """The times in the file that `--measured` names.

    Raises:
        BadInput: the file or a line of it cannot be read, or several platforms are compared.
    """
    if file is None:
        return None
    if len(names) > 1:
        raise BadInput(
            f"--measured {file} has the times of one platform, and {len(names)} are compared: "
            f"{', '.join(names)}",
            fix=f"name the one that was measured, for example --on {names[0]}",
        )
    return read(file)


def floor_notes(ranks: int, lnc: int = 1) -> list[str]:
    """The floor that exchanges of `ranks` pay in a plan; none for one rank, or GPUs (LNC of 0)."""
    if ranks == 1 or not lnc:
        return []
    return [f"collectives run {Floor.PROGRAM.value}: the host does not start each of them"]


def sources_by_phase(sources: Mapping[str, str]) -> list[str]:
    """The sources of times: a single one if all phases share it, else one per phase."""
    if len(set(sources.values())) == 1:
        return [next(iter(sources.values()))]
    return [f"{phase}: {source}" for phase, source in sources.items()]
