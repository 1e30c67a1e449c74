"""Evaluation of the formulas in ``claims.yaml``: arithmetic on rows of the catalogue.

    peak("trainium2", "bf16") / peak("trainium1", "bf16")

A formula has numbers, texts, the four operations, units and constants by name (`CONSTANTS`), and
calls of `FUNCTIONS`. Its value is an `Amount`, or a `WordAmount`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from typing import Any, Final

from trnsim.arch import TARGETS
from trnsim.errors import InternalError
from trnsim.facts import Flag
from trnsim.price.payback import HOURS_PER_MONTH, MIGRATION_USD, threshold_usd_per_month
from trnsim.system.claims.amounts import (
    Absent,
    Amount,
    Citation,
    Grade,
    WordAmount,
    percent_less,
    percent_more,
)
from trnsim.system.claims.published import FACTS
from trnsim.system.claims.rates import rate
from trnsim.system.claims.rows import RowReader

CONSTANTS: Final[Mapping[str, float]] = {
    "TBPS": 1e12 / 8,
    "TERA": 1e12,
    "PETA": 1e15,
    "GIB": 2.0**30,
    "TIB": 2.0**40,
    "HOURS_PER_MONTH": HOURS_PER_MONTH,
}
_MONTHS_PER_YEAR: Final = 12
_MIGRATION_CITATION: Final = Citation(
    Grade.ASSUMED,
    source="12 weeks of an engineer at 5,000 USD, paid back in 12 months",
    doubt="assumed: what a migration costs",
)
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def value_of(formula: str, rows: RowReader) -> Amount | WordAmount:
    """The value of a formula.

    Raises:
        Absent: an input is unknown.
    """
    value = _value(_expression(formula), rows)
    if not isinstance(value, Amount | WordAmount):
        raise InternalError(f"the formula {formula!r} reads no row")
    return value


@cache
def _expression(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _value(node: ast.expr, rows: RowReader) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return CONSTANTS[node.id]
        case ast.BinOp():
            return _OPERATORS[type(node.op)](_value(node.left, rows), _value(node.right, rows))
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            arguments = [_value(node, rows) for node in node.args]
            function = FUNCTIONS.get(name)
            return FIGURES[name](*arguments) if function is None else function(rows, *arguments)
        case _:
            raise InternalError(f"no formula has {ast.unparse(node)!r}")


def _instance_memory(rows: RowReader, name: str) -> Amount:
    """Memory of all chips of an instance together, in bytes."""
    return rows.count(name) * rows.memory(rows.instance(name).accelerator)


def _instance_bandwidth(rows: RowReader, name: str) -> Amount:
    """Memory bandwidth of all chips of an instance together, in bytes per second."""
    return rows.count(name) * rows.bandwidth(rows.instance(name).accelerator)


def _peak_per_watt(rows: RowReader, chip: str, dtype: str) -> Amount:
    """Peak dense FLOP/s of a chip divided by its power in watts."""
    watts = rows.of_chip(chip, "power_w")
    return rows.peak(chip, dtype) / watts


def _generations(rows: RowReader, prefix: str) -> Amount:
    """Number of chips whose name begins with `prefix`."""
    names = [name for name in rows.catalogue.chips if name.startswith(prefix)]
    if not names:
        raise Absent(f"rows of {prefix}")
    return Amount(
        len(names), tuple(origin for name in names for origin in rows.memory(name).origins)
    )


def _price(rows: RowReader, instance: str, kind: str) -> Amount:
    """USD per hour at the price nearest to the documents' day."""
    prices = rows.prices(instance, kind)
    if not prices:
        raise Absent(f"a {kind} price of {instance}")
    return rows.usd(prices[0])


def _cut(rows: RowReader, instance: str, kind: str, day: str) -> Amount:
    """Per cent by which the price of an hour fell from before a day to after it."""
    since = date.fromisoformat(day)
    prices = rows.prices(instance, kind)
    later_prices = [price for price in prices if price.first_seen >= since]
    earlier_prices = [price for price in prices if price.first_seen < since]
    if not later_prices or not earlier_prices:
        raise Absent(f"{kind} prices of {instance} before and after {since:%B %Y}")
    return percent_less(rows.usd(later_prices[0]), rows.usd(earlier_prices[0]))


def _cheaper_chip(rows: RowReader, ours: str, theirs: str, kind: str) -> WordAmount:
    """The word "less" if an hour of a chip of one instance costs less than of another's."""
    pair = next(rows.pairs(ours, theirs, [kind]), None)
    if pair is None:
        raise Absent(f"{kind} prices of {ours} and {theirs}")
    our_usd = rows.usd(pair.ours) / rows.count(ours)
    ratio = our_usd / (rows.usd(pair.theirs) / rows.count(theirs))
    return WordAmount("less" if ratio.value < 1 else "not less", ratio.origins)


def _new_format(
    rows: RowReader, new_chip: str, old_chip: str, field: str, dtype: str
) -> WordAmount:
    """The word "new" if one chip has a peak in a format and another has none."""
    origins = rows.of_chip(new_chip, field, dtype).origins + rows.memory(old_chip).origins
    peaks = getattr(rows.chip(old_chip), field)
    is_new = not peaks if field.startswith("peak_sparse") else dtype not in peaks
    return WordAmount("new" if is_new else "not new", origins)


def _has_format(rows: RowReader, chip: str, dtype: str) -> WordAmount:
    """The word "yes" if a chip has a peak in a format."""
    is_known = any(name.startswith(dtype) for name in rows.chip(chip).peak_flop_per_s)
    return WordAmount("yes" if is_known else "no", rows.memory(chip).origins)


def _memory_kind(rows: RowReader, chip: str) -> WordAmount:
    """The kind of a chip's memory: "HBM3"."""
    kind = rows.chip(chip).memory_kind.replace(",", ";").split(";")[0]
    return WordAmount(kind, rows.memory(chip).origins)


def _chip_of(rows: RowReader, instance: str) -> WordAmount:
    """The chip of an instance."""
    return WordAmount(rows.instance(instance).accelerator, rows.count(instance).origins)


def _release(rows: RowReader, version: str, subject: str) -> WordAmount:
    """The month of a release of the SDK ("month"), or the version of a package that it supports."""
    release, origin = rows.release(version)
    month = release.released.strftime("%Y-%m")
    return WordAmount(month if subject == "month" else release.supports[subject], (origin,))


def _comparison(ours: Amount, theirs: Amount) -> WordAmount:
    """Comparison of two amounts: "more", "less", or "as much"."""
    ratio = ours / theirs
    is_equal = ratio.value == 1
    return WordAmount(
        "as much" if is_equal else "more" if ratio.value > 1 else "less", ratio.origins
    )


def _has_feature(target: str, name: str, day: str) -> WordAmount:
    """The word "yes" if a NeuronCore has a feature, by the documents of a day."""
    flag: Flag = getattr(TARGETS[target].core.features, name)
    origin = Citation(Grade.DOCUMENT, "", day, flag.provenance.source)
    return WordAmount("yes" if flag else "no", (origin,))


def _fact(name: str) -> Amount:
    """A document's figure as a number."""
    return FACTS[name].amount


def _migration_threshold(saving: float) -> Amount:
    """Spend in USD a month from which an assumed migration pays back, at a fractional saving."""
    return Amount(threshold_usd_per_month(saving), (_MIGRATION_CITATION,))


def _migration_return(usd_per_month: float, saving: float) -> Amount:
    """Savings of a year, at a fractional saving, over the assumed cost of a migration."""
    return Amount(usd_per_month * saving * _MONTHS_PER_YEAR / MIGRATION_USD, (_MIGRATION_CITATION,))


FUNCTIONS: Final[Mapping[str, Callable[..., Amount | WordAmount]]] = {
    "announced": RowReader.announced,
    "bandwidth": RowReader.bandwidth,
    "cheaper_chip": _cheaper_chip,
    "chip_of": _chip_of,
    "count": RowReader.count,
    "cut": _cut,
    "efa": RowReader.efa,
    "generations": _generations,
    "has_format": _has_format,
    "instance_bandwidth": _instance_bandwidth,
    "instance_memory": _instance_memory,
    "instance_peak": RowReader.instance_peak,
    "largest": RowReader.largest,
    "memory": RowReader.memory,
    "memory_kind": _memory_kind,
    "new_format": _new_format,
    "of_chip": RowReader.of_chip,
    "peak": RowReader.peak,
    "peak_per_watt": _peak_per_watt,
    "price": _price,
    "rate": rate,
    "release": _release,
    "site": RowReader.site,
    "system": RowReader.system,
}
"""Functions of the rows of a catalogue, by name in formulas."""
FIGURES: Final[Mapping[str, Callable[..., Amount | WordAmount]]] = {
    "compared": _comparison,
    "fact": _fact,
    "has_feature": _has_feature,
    "migration_return": _migration_return,
    "migration_threshold": _migration_threshold,
    "more_than": percent_more,
}
"""Functions of other figures, of documents and of assumptions, by name in formulas."""
