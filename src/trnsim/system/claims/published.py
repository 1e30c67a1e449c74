"""What documents state that are no rows of the catalogue: dates, sums, tables of Neuron.

None of them is one of the four documents whose claims are judged. A page that repeats an
announcement says what AWS said, not that it is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.system.claims.amounts import Amount, Kind, Origin
from trnsim.system.claims.verdict import Basis, Given

_SDK: Final = "aws-neuron-sdk@81ce03ae"
_RE_INVENT: Final = f"{_SDK}:about-neuron/whats-new.rst, 2025-12-02"
_CHIPS_2025: Final = "buzzbytech.com/?p=9439, quoting AWS at re:Invent 2025"
_RAINIER: Final = "semafor.com, 2025-10-29, 'AWS massive multi-state AI data center'"
_RAINIER_AWS: Final = "AWS's announcement of 2025-10-29, as told by Data Centre Magazine, 2025-12"


@dataclass(frozen=True)
class Published:
    """A figure that a document states.

    Attributes:
        value: as stated.
        day: on which the document was written or what it tells of happened.
        source: the document.
        kind: whether it was measured or merely stated.
        is_own_word: whether whom it is about says it, or one unnamed person: it may support.
    """

    value: float | str
    day: str
    source: str
    kind: Kind = Kind.DOCUMENT
    is_own_word: bool = False

    @property
    def origin(self) -> Origin:
        """As an input of a figure."""
        return Origin(self.kind, "", self.day, self.source)

    @property
    def amount(self) -> Amount:
        """As a number."""
        return Amount(float(self.value), (self.origin,))


FACTS: Final = {
    "Trn1 first supported": Published(
        "2022", "2022-10-27", f"{_SDK}:release-notes/prev/rn.rst, 2.4.0, the oldest of Neuron 2"
    ),
    "Trn2 first supported": Published(
        "2024", "2024-12-03", f"{_SDK}:release-notes/prev/rn.rst, 2.21 Beta, with Trn2 alone"
    ),
    "Trn3 first supported": Published("2025-12", "2025-12-02", _RE_INVENT),
    "Inf1 first supported": Published(
        "2019", "2019-11-25", f"{_SDK}:release-notes/archive/mxnet-neuron.rst, its first release"
    ),
    "Inf2 first supported": Published(
        "2023", "2023-02-24", f"{_SDK}:release-notes/prev/rn.rst, 2.8.0"
    ),
    "process of Trainium3": Published("3 nm", "2025-12-02", _CHIPS_2025),
    "maker of Trainium3": Published("TSMC", "2025-12-02", _CHIPS_2025),
    "energy of Trainium3, at the chip": Published(
        40.0,
        "2025-12-02",
        "AWS at re:Invent 2025, as told by hyper.ai and aibase.com/news/23291",
        is_own_word=True,
    ),
    "TorchNeuron": Published("2025", "2025-12-02", f"{_RE_INVENT}: private preview"),
    "NKI compiler": Published(
        "Apache 2.0", "2025-12-02", f"{_RE_INVENT}: its source in private preview"
    ),
    "Llama 4": Published("beta", "2025-09-18", f"{_SDK}:release-notes/prev/2.26.0/nxd-inference"),
    "FLUX.1-dev": Published(
        "beta", "2025-09-18", f"{_SDK}:release-notes/prev/2.26.0/nxd-inference"
    ),
    "expert parallelism": Published(
        "inference, beta", "2025-09-18", f"{_SDK}:release-notes/prev/2.26.0/nxd-inference"
    ),
    "Annapurna Labs, year": Published("2015", "2015-01", "vipress.net/?p=1182, on Amazon's word"),
    "Annapurna Labs, low": Published(
        350.0, "2015-01", "vipress.net/?p=1182: the press speaks of 350 to 375 million USD"
    ),
    "Annapurna Labs, high": Published(
        370.0, "2015-01", "itreseller.ch/Artikel/79210, after Reuters: 370 million USD were offered"
    ),
    "invested in Anthropic": Published(
        8.0, "2024-11-22", "ndtvprofit.com (Bloomberg): 4 billion USD more, after 4 completed"
    ),
    "invested in Anthropic in 2023": Published(
        1.25, "2023-09", "datacenterdynamics.com on the 2.75 billion USD of March 2024"
    ),
    "Rainier, activated": Published("2025-10", "2025-10-29", _RAINIER_AWS),
    "Rainier, chips": Published(500_000.0, "2025-10-29", _RAINIER_AWS, is_own_word=True),
    "Rainier, compute": Published(5.0, "2025-10-29", _RAINIER_AWS, is_own_word=True),
    "Rainier, chips of Anthropic": Published(1_000_000.0, "2025-10-29", _RAINIER, is_own_word=True),
    "Rainier, states": Published(3.0, "2025-10-29", _RAINIER, is_own_word=True),
    "Rainier, serving by day": Published("the majority", "2025-10-29", _RAINIER, is_own_word=True),
    "Rainier, training": Published("in the evening", "2025-10-29", _RAINIER, is_own_word=True),
    "Rufus, response time": Published(
        2.0,
        "2025-05-28",
        "AWS Machine Learning Blog, 'How Rufus doubled their inference speed'",
        is_own_word=True,
    ),
    "Rufus, cost": Published(
        50.0,
        "2025-05-28",
        "AWS Machine Learning Blog, 'How Rufus doubled their inference speed'",
        is_own_word=True,
    ),
    "NVLink Fusion": Published(
        "announced", "2025-12-02", "AWS and NVIDIA at re:Invent, as told by hyper.ai"
    ),
}
"""Figures by what they are of."""

_TABLES: Final = f"{_SDK}:about-neuron/benchmarks"


def _row(value: float, path: str) -> Published:
    return Published(value, "2026-08-21", f"{_TABLES}/{path}", Kind.MEASURED)


def _one(value: float) -> Published:
    return _row(value, "inf1/throughput_data_encoder.csv, latency_data_encoder.csv (SDK 2.20)")


def _two(value: float) -> Published:
    return _row(value, "inf2/throughput_data_encoder.csv, latency_data_encoder.csv (2.26, 2.27)")


RATES: Final = {
    "BERT base, in batches": (_one(1180.7), _two(2674.19)),
    "BERT base, real time": (_one(284.7), _two(1998.21)),
    "DistilBERT, in batches": (_one(1876.7), _two(5307.88)),
    "DistilBERT, real time": (_one(538.2), _two(3401.97)),
    "ResNet-50, FP32 model": (
        _row(921.5, "inf1/throughput_data_cnn.csv (SDK 2.20)"),
        _row(4393.3, "inf2/throughput_data_vision_cnn.csv (SDK 2.21)"),
    ),
}
"""Inferences a second of inf1.xlarge and inf2.xlarge, each of one chip; texts of 128 tokens."""
P50_MS: Final = {
    "BERT base, batches of 6 and 8": (_one(40.6), _two(5.974)),
    "BERT base, real time, batches of 3 and 1": (_one(10.5), _two(0.999)),
    "DistilBERT, batches of 8 and 16": (_one(33.7), _two(6.011)),
    "DistilBERT, real time, batches of 6 and 1": (_one(11.1), _two(0.579)),
}
"""Median milliseconds of the same, as its table gives them; batches differ, as they do there."""


def stated(name: str, text: str = "") -> Given:
    """What a document states, as a basis."""
    fact = FACTS[name]
    return Basis(text or name, fact.value, (fact.origin,), is_stand_in=fact.is_own_word)
