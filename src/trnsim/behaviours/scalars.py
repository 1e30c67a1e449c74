"""Scalars of the device: NkiScalar, and registers without a value."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, Effect

REGISTER_HAS_VALUE: Final = Behaviour(
    name="register-has-value",
    until="0.7",
    form="a register as a Python number",
    rule="int(register), range(register), `if register:` and register == 1 read a register",
    otherwise="a register has no value while the kernel is traced",
    instead="count with nl.fori_loop(0, register, body); address with "
    "tensor.ap(pattern, scalar_offset=register); choose with tiles of ones and zeros",
    source="nki.isa.VirtualRegister, Note",
)
FORI_GIVES_SCALARS: Final = Behaviour(
    name="fori-loop-gives-scalars",
    since="0.7",
    rule="the body of nl.fori_loop gets an NkiScalar, unless a bound is a VirtualRegister",
    otherwise="the body of nl.fori_loop gets a VirtualRegister",
    instead="use the variable as scalar_offset of an access pattern, which takes both; or put a "
    "bound into a register: nisa.register_alloc(8)",
    source="nki.language.fori_loop, body_fun",
)
RANGES_ARE_PYTHONS: Final = Behaviour(
    name="ranges-are-pythons",
    since="0.7",
    rule="nl.affine_range, nl.sequential_range and nl.static_range are Python's range",
    otherwise="nl.affine_range declares its iterations independent, and dependences are reported",
    instead="write range",
    source="nki/deep-dives/nki-loops, Choosing a Loop",
    effect=Effect.warned,
)
