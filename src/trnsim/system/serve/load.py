"""Load: the requests that a deployment has to serve, drawn from distributions by seed.

A load is open (requests arrive at fixed times) or closed (clients send one request after another: a
request arrives when the client's last one has ended). Either kind can be a trace, see
`trnsim.system.serve.trace`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trnsim.errors import BadInput
from trnsim.quantities import number, whole

_LEGAL_LENGTHS: Final = "NUMBER, uniform:LEAST:MOST or lognormal:MEDIAN:SIGMA"
_MOST_SIGMA: Final = 10.0
_MOST_MEDIAN: Final = 1e12
"""Maximum sigma and median of lognormal lengths, so that their mean is a finite number."""
_RATE_RANGE_PER_S: Final = (1e-6, 1e9)
"""Minimum and maximum rate: of rarer requests, sums of seconds would not hold the milliseconds."""
_RANDOM_STREAMS: Final = ("arrivals", "inputs", "outputs", "prefixes")


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        arrival_s: time of arrival, in seconds from the start; ignored with `after`.
        prefix: name of the shared prefix of its prompt; "" for none.
        after: index in the load of the request at whose end this one arrives; None in an open load.
    """

    arrival_s: float
    input_tokens: int
    output_tokens: int
    prefix: str = ""
    prefix_tokens: int = 0
    after: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens of prompt and answer: the final length of the sequence."""
        return self.input_tokens + self.output_tokens


Load = tuple[Request, ...]


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths, in tokens.

    Attributes:
        kind: "fixed" (all `first`), "uniform" (`first` to `second` inclusive) or "lognormal"
            (median `first`, sigma `second`).
        first: the first parameter, in tokens.
        second: the second parameter: tokens for "uniform", no unit for "lognormal".
    """

    kind: str
    first: float
    second: float = 0.0

    def draw(
        self, count: int, generator: np.random.Generator, token_limit: int
    ) -> NDArray[np.int64]:
        """`count` random lengths, clipped to 1 to `token_limit`."""
        if self.kind == "uniform":
            draws = generator.integers(int(self.first), int(self.second), count, endpoint=True)
        elif self.kind == "lognormal":
            normal = generator.standard_normal(count)
            lengths = np.exp(math.log(self.first) + self.second * normal)
            draws = np.rint(np.minimum(lengths, token_limit)).astype(np.int64)
        else:
            draws = np.full(count, int(self.first), np.int64)
        return np.clip(draws, 1, token_limit).astype(np.int64)

    @property
    def mean(self) -> float:
        """The mean of the distribution, without the clipping of `draw`."""
        if self.kind == "uniform":
            return (self.first + self.second) / 2
        return self.first * math.exp(self.second**2 / 2) if self.second else self.first

    @property
    def longest(self) -> int | None:
        """The greatest possible length; None if unlimited."""
        return {"fixed": int(self.first), "uniform": int(self.second)}.get(self.kind)


def lengths(text: str, option: str) -> Lengths:
    """The distribution that a user's `text` describes; `option` is the option that errors name.

    Raises:
        BadInput: `text` describes no distribution, or lengths below 1.
    """
    kind, *numbers = text.split(":")
    try:
        if not numbers:
            distribution = Lengths("fixed", whole(kind, "tokens"))
        elif kind == "uniform" and len(numbers) == len(("least", "most")):
            distribution = Lengths(kind, whole(numbers[0], "tokens"), whole(numbers[1], "tokens"))
        elif kind == "lognormal" and len(numbers) == len(("median", "sigma")):
            distribution = Lengths(kind, number(numbers[0], "tokens"), number(numbers[1]))
        else:
            raise BadInput(f"{option} is {text!r}; legal: {_LEGAL_LENGTHS}", fix=f"{option} 512")
    except ValueError as error:
        raise BadInput(f"{option}: {error}; legal: {_LEGAL_LENGTHS}", fix=f"{option} 512") from None
    _check_lengths(distribution, text, option)
    return distribution


def _check_lengths(distribution: Lengths, text: str, option: str) -> None:
    """Refuse a distribution of lengths that no request can have.

    Raises:
        BadInput: lengths below one token, bounds not in order, not finite, or too wide.
    """
    if not (distribution.first >= 1 and math.isfinite(distribution.first)):
        raise BadInput(f"{option} is {text}; a request has at least 1 token", fix=f"{option} 128")
    is_ordered = distribution.kind != "uniform" or distribution.second >= distribution.first
    if not (is_ordered and distribution.second >= 0 and math.isfinite(distribution.second)):
        raise BadInput(f"{option} is {text!r}; legal: {_LEGAL_LENGTHS}", fix=f"{option} 512")
    is_wide = distribution.first > _MOST_MEDIAN or distribution.second > _MOST_SIGMA
    if distribution.kind == "lognormal" and is_wide:
        raise BadInput(
            f"{option} is {text!r}; legal: a median up to {_MOST_MEDIAN:g} tokens and a sigma up "
            f"to {_MOST_SIGMA:g}",
            fix=f"{option} lognormal:512:0.8",
        )


@dataclass(frozen=True)
class Synthetic:
    """A synthetic load: distributions of lengths and arrivals.

    Attributes:
        inputs: tokens of prompts, without `prefix_tokens`.
        outputs: tokens of answers.
        concurrency: clients, each of which sends its next request when the last has ended; 0 for
            an open load.
        ramp_s: seconds over which clients send their first request.
        rate_per_s: requests a second of an open load.
        burstiness: shape of the gamma distribution of the time between two requests: 1 for a
            Poisson process, less for bursts, more for even arrivals.
        prefix_tokens: tokens of the shared prefix of a prompt, in front of `inputs`.
    """

    inputs: Lengths
    outputs: Lengths
    count: int
    concurrency: int = 0
    ramp_s: float = 0.0
    rate_per_s: float = 0.0
    burstiness: float = 1.0
    prefix_tokens: int = 0
    prefixes: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        _check_least("--num-prompts", self.count, 1)
        _check_least("--concurrency", self.concurrency, 0)
        _check_least("--prefix-len", self.prefix_tokens, 0)
        _check_least("--num-prefixes", self.prefixes, 1)
        if bool(self.concurrency) == bool(self.rate_per_s):
            count = "both" if self.concurrency else "neither"
            raise BadInput(
                f"{count} of concurrency and request rate given; legal: exactly one, as clients "
                "that wait for answers set the rate themselves",
                fix="--concurrency 8, or --request-rate 2",
            )
        least_per_s, most_per_s = _RATE_RANGE_PER_S
        if self.rate_per_s and not least_per_s <= self.rate_per_s <= most_per_s:
            raise BadInput(
                f"--request-rate is {self.rate_per_s}; legal: from {least_per_s:g} to "
                f"{most_per_s:g} a second"
            )
        if not (self.burstiness > 0 and math.isfinite(self.burstiness)):
            raise BadInput(f"--burstiness is {self.burstiness}; legal: a positive number")

    def at_rate(self, rate_per_s: float) -> Synthetic:
        """The load as an open one at another rate: the same requests, closer together or apart.

        Raises:
            BadInput: for a rate that is not positive.
        """
        return replace(self, concurrency=0, ramp_s=0.0, rate_per_s=rate_per_s)

    def requests(self, longest: int) -> Load:
        """The requests, shortened to sequences of at most `longest` tokens.

        Raises:
            BadInput: the prefix leaves less than two tokens of `longest`.
        """
        streams = {
            name: np.random.default_rng([self.seed, index])
            for index, name in enumerate(_RANDOM_STREAMS)
        }
        free_tokens = longest - self.prefix_tokens
        if free_tokens < len(("input", "output")):
            raise BadInput(
                f"a prefix of {self.prefix_tokens} tokens leaves {free_tokens} of a longest "
                f"sequence of {longest}; legal: at least one token of input and one of output",
                fix="shorten the prefix or raise --max-model-len",
            )
        outputs = self.outputs.draw(self.count, streams["outputs"], free_tokens - 1)
        inputs = np.minimum(
            self.inputs.draw(self.count, streams["inputs"], free_tokens), free_tokens - outputs
        )
        arrivals = self._arrivals_s(streams["arrivals"])
        prefix_numbers = streams["prefixes"].integers(0, self.prefixes, self.count)
        return tuple(
            Request(
                float(arrivals[index]),
                int(inputs[index]) + self.prefix_tokens,
                int(outputs[index]),
                f"prefix {prefix_numbers[index]}" if self.prefix_tokens else "",
                self.prefix_tokens,
                index - self.concurrency if 0 < self.concurrency <= index else None,
            )
            for index in range(self.count)
        )

    def _arrivals_s(self, generator: np.random.Generator) -> NDArray[np.float64]:
        if not self.rate_per_s:
            clients = np.minimum(np.arange(self.count), self.concurrency)
            return clients / self.concurrency * self.ramp_s
        gaps = generator.standard_gamma(self.burstiness, self.count) / self.burstiness
        return np.cumsum(gaps) / self.rate_per_s


def _check_least(name: str, value: int, minimum: int) -> None:
    """Refuse a value of the option `name` below `minimum`.

    Raises:
        BadInput: names the option.
    """
    if value < minimum:
        raise BadInput(f"{name} is {value}; legal: whole numbers from {minimum} on")


def is_closed(load: Load) -> bool:
    """True for a closed load: some request waits for the end of another."""
    return any(request.after is not None for request in load)


def share_of_load(load: Load, count: int, request_limit: int) -> tuple[Load, int]:
    """The requests of one of `count` replicas, and the number of replicas that have as many.

    From an open load, every `count`-th request is taken, as by round robin, up to
    `request_limit`; from a closed load, every `count`-th client with all its requests.
    """
    if not is_closed(load):
        return load[: request_limit * count : count], count
    clients = [0] * len(load)
    new_indices: dict[int, int] = {}
    requests: list[Request] = []
    client_count = 0
    for index, request in enumerate(load):
        if request.after is None:
            clients[index] = client_count
            client_count += 1
        else:
            clients[index] = clients[request.after]
        if clients[index] % count == 0:
            new_indices[index] = len(requests)
            new_index = None if request.after is None else new_indices[request.after]
            requests.append(replace(request, after=new_index))
    return tuple(requests), min(count, client_count)


def at_rate(
    load: Load, rate_per_s: float, minimum_requests: int, seed: int, every: int = 1
) -> Load:
    """At least `minimum_requests` at a rate: `load` repeated, of which every `every`-th is kept.

    Arrivals keep the load's relative spacing. A closed load, or one that arrives all at once, gets
    Poisson arrivals by `seed`.
    """
    count = len(load)
    repeats = -(-minimum_requests // count)
    arrivals = np.array([request.arrival_s for request in load])
    if is_closed(load) or not arrivals[-1] > arrivals[0]:
        generator = np.random.default_rng([seed, len(_RANDOM_STREAMS)])
        arrivals_s = np.cumsum(generator.standard_exponential(count * repeats)) / rate_per_s
    else:
        span_s = count / rate_per_s
        scaled_s = (
            (arrivals - arrivals[0]) / (arrivals[-1] - arrivals[0]) * (count - 1) / rate_per_s
        )
        arrivals_s = np.concatenate([scaled_s + repeat * span_s for repeat in range(repeats)])
    repeated_requests = [load[index % count] for index in range(0, len(arrivals_s), every)]
    # Not `replace`, which takes five times as long: a search makes many thousands of requests.
    return tuple(
        Request(
            arrival_s,
            request.input_tokens,
            request.output_tokens,
            request.prefix,
            request.prefix_tokens,
        )
        for request, arrival_s in zip(repeated_requests, arrivals_s[::every].tolist(), strict=True)
    )


def check_lengths(synthetic: Synthetic, longest: int) -> None:
    """Refuse requests of one length that are longer than the `longest` tokens of a server.

    Lengths that vary are not refused: the longest requests are shortened.

    Raises:
        BadInput: names the lengths.
    """
    inputs, outputs = synthetic.inputs, synthetic.outputs
    if {inputs.kind, outputs.kind} != {"fixed"}:
        return
    prompt, answer = int(inputs.first) + synthetic.prefix_tokens, int(outputs.first)
    if prompt + answer > longest:
        raise BadInput(
            f"--max-model-len is {longest:,}, and a request has {prompt + answer:,} tokens: "
            f"{prompt:,} of the prompt (--input-len, --prefix-len), {answer:,} of the answer "
            f"(--output-len); legal: {prompt + answer:,} or more",
            fix=f"--max-model-len {prompt + answer}, or shorter requests",
        )


def check_tokens(load: Load, longest: int) -> None:
    """Refuse a load with a sequence longer than `longest` tokens.

    Raises:
        BadInput: names the longest request.
    """
    index, request = max(enumerate(load), key=lambda pair: pair[1].tokens)
    if request.tokens > longest:
        raise BadInput(
            f"request {index + 1} has {request.input_tokens} input and {request.output_tokens} "
            f"output tokens, {request.tokens} together; max_model_len is {longest}",
            fix=f"--max-model-len {request.tokens}, or shorter requests",
        )
