"""The recording of the device's calls: the value of each storage, and the call that computed it.

A storage is known by its address. A result in new memory is a value, a write is a new value of the
same memory, and a view is a value of its own while a tensor of it lives, as in torch_xla. Values
that no tensor and no later call reads are freed with their calls.

A program that never ends a step would grow without bound. After `MOST_CALLS` calls without a cut
of all values, they are taken for computed, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.torch.aten.operator_call import tensors_in
from trnsim.xla.cuts.call_parts import (
    has_generator,
    is_argument_one,
    is_new,
    new_results,
    number_dtype,
    place_of,
    result_positions,
    span_bytes,
    written_tensors,
)
from trnsim.xla.cuts.lines import Lines
from trnsim.xla.cuts.pattern_making import pattern_of
from trnsim.xla.cuts.patterns import MARKED_DISTANCE, frame_at
from trnsim.xla.cuts.repeats import Repeats
from trnsim.xla.cuts.rules import MASK_COUNTER, RecordingRule, is_special, rule_of
from trnsim.xla.cuts.values import (
    COPY,
    FILLED,
    NO_GEOMETRY,
    SCATTER,
    SEED,
    SEED_GEOMETRY,
    VIEW,
    VIEWS,
    HostNumber,
    Operand,
    RecordedValue,
    Signature,
    Signatures,
    StorageOwner,
    TensorStorage,
    UncutWarning,
    as_data,
    data_at,
)

COPIED: Final = "copy to the host"
"""The kind of a cut at a copy to the host, whose tensor is data afterwards."""
MOST_CALLS: Final = 250_000
"""Calls since the last end of a step, after which a recording begins anew."""


class CutRecorder:
    """The values of the device's memory, and the calls that they are results of.

    Attributes:
        storages: the storages, by their address; 0 is the address of tensors without elements.
        pending: storages with values that are not computed.
        seed: the seed of the next call that draws random numbers.
        lines: the lines whose calls were recorded.
        on_read: called with a kind of cut and the values that the host reads.
        on_transfer: called with "to" or "from" at each copy to or from the device.
    """

    def __init__(
        self,
        on_read: Callable[[str, Sequence[RecordedValue]], None],
        on_transfer: Callable[[str], None],
    ) -> None:
        self.storages = {0: TensorStorage(RecordedValue(NO_GEOMETRY))}
        self.pending: dict[int, TensorStorage] = {}
        self.seed = RecordedValue(SEED_GEOMETRY)
        self.on_read = on_read
        self.on_transfer = on_transfer
        self.repeats = Repeats(self._replace_data)
        self._signature = Signatures(MOST_CALLS).signature
        self._numbers = count()
        self._calls_since_settled = 0
        self.lines = Lines()
        self._special: dict[str, Callable[..., None]] = {
            **dict.fromkeys(VIEWS, self._record_view),
            **dict.fromkeys(
                ("aten::empty.memory_format", "aten::empty_strided"), self._record_empty
            ),
            "aten::_efficientzerotensor": self._record_empty,
            **dict.fromkeys(("aten::zero_", "aten::fill_.Scalar"), self._record_fill),
            "aten::clone": self._record_clone,
            "aten::unfold": self._record_unfold,
            "aten::_copy_from": self._record_copy,
            "aten::_local_scalar_dense": self._record_scalar,
        }

    def placed(self, host: Tensor) -> None:
        """Note new memory of the device: its values are data until a call writes them."""
        storage = host.untyped_storage()
        address = storage.data_ptr()
        if not address:
            return
        data = RecordedValue((host.shape, host.stride(), 0, host.dtype))
        data.home = address
        tensor_storage = self.storages[address] = TensorStorage(data, address)
        self.pending.pop(address, None)
        owner = tensor_storage.owner = StorageOwner(storage, self._free)
        owner.address = address

    def _free(self, owner: StorageOwner) -> None:
        """Forget memory that is freed, unless there is other memory at its address already."""
        storage = self.storages.get(owner.address)
        if storage is not None and storage.owner is owner:
            del self.storages[owner.address]
            self.pending.pop(owner.address, None)

    def note_call(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call of an operator, which has run."""
        repeats = self.repeats
        try:
            mark = frame_at(MARKED_DISTANCE).f_trace
        except ValueError:  # the stack is shorter
            mark = None
        for call in repeats.latest_call.successors:
            pattern = call.pattern
            if (
                pattern is not None
                and pattern.name == name
                and (pattern.line is mark or pattern.line.is_here())
                and pattern.fits(self, args, kwargs, result)
            ):
                repeats.latest_call = pattern.last
                self._calls_since_settled += 1
                place = pattern.line.place
                if place is not None and place is not self.lines.latest_place:
                    self.lines.begin(place)
                return
        self._record_anew(name, args, kwargs, result)

    def _record_anew(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call that no pattern fits; a call that repeats another call gets a pattern."""
        repeats = self.repeats
        repeats.begin_call()
        new_calls_before = repeats.new_calls
        special = self._special.get(name)
        if special is not None:
            special(name, args, kwargs, result)
        else:
            self._record_by_rule(rule_of(name), args, kwargs, result)
        if (
            repeats.operator_calls
            and repeats.new_calls == new_calls_before
            and not repeats.operator_calls[0].has_repeated
        ):
            repeats.operator_calls[0].has_repeated = True
            parts = (args, kwargs, result)
            repeats.operator_calls[0].pattern = pattern_of(
                name, repeats.operator_calls, parts, self
            )

    def _record_by_rule(self, rule: RecordingRule, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call of an operator for which there is a rule."""
        if (
            rule.host_name
            or has_generator(rule, args, kwargs)
            or any(not is_argument_one(rule, scale, args, kwargs) for scale in rule.scaled)
        ):
            self._read_on_host(rule, args, kwargs, result)
        else:
            if rule.is_masked:
                args = self._count_masks(args)
            self._record(rule, args, kwargs, result)

    def _count_masks(self, args: Any) -> Any:
        """The arguments of an index, after the cuts at masks, which the host counts."""
        counted_indices: list[Any] = []
        for index in args[1]:
            if index is not None and index.dtype in (torch.bool, torch.uint8):
                if index.get_device() >= 0:
                    self.on_read(MASK_COUNTER, [self.value_of(index)])
                    self.on_transfer("from")
                counted_indices.append(RecordedValue(place_of(index)[1]))
            else:
                counted_indices.append(index)
        return (args[0], counted_indices, *args[2:])

    def live_values(self) -> list[RecordedValue]:
        """The values that are not computed and that tensors hold, in any order."""
        values: list[RecordedValue] = []
        for storage in self.pending.values():
            if storage.views:
                views = storage.views.items()
                values += [view for at, view in views if view.node and storage.is_held(at)]
            if storage.value.node is not None:
                values.append(storage.value)
        return values

    def origins(self) -> list[RecordedValue]:
        """Data in memory that was written since, which a program may overwrite."""
        origins = [storage.origin for storage in self.pending.values()]
        return [origin for origin in origins if origin is not None]

    def reseed(self) -> None:
        """Replace the seed by data."""
        self.seed = RecordedValue(SEED_GEOMETRY)

    def settle(self) -> None:
        """Take all values for computed, and begin a new seed."""
        for storage in self.pending.values():
            storage.settle()
        self.pending.clear()
        self.reseed()
        self.repeats.begin_step()
        self._calls_since_settled = 0
        self.lines.settle()

    def mark_computed(self, tensor: Tensor) -> None:
        """Take the value of one tensor for computed; calls that read it before still compute it."""
        address, geometry = place_of(tensor)
        storage = self.storages.get(address)
        if storage is None:
            return
        if storage.value.geometry == geometry:
            storage.value = as_data(storage.value, address)
        elif geometry in storage.views:
            storage.views[geometry] = as_data(storage.views[geometry], address)
        if not storage.has_work:
            self.pending.pop(address, None)

    def value_of(self, tensor: Tensor) -> RecordedValue:
        """The value of a tensor of the device."""
        value = self._held_value(tensor)
        value.event = self.repeats.event
        return value

    def _held_value(self, tensor: Tensor) -> RecordedValue:
        address, geometry = place_of(tensor)
        if not address:
            return RecordedValue(geometry)
        storage = self.storages.get(address)
        if storage is None:
            storage = self.storages[address] = TensorStorage(data_at(geometry, address), address)
        if storage.value.geometry == geometry:
            return storage.value
        view = storage.views.get(geometry)
        if view is None or (view.node is None and not storage.is_held(geometry)):
            signature = self._signature(VIEW, VIEW, (storage.value.geometry, geometry), (geometry,))
            (view,) = self._results(signature, (storage.value,))
            storage.views[geometry] = view
            self.pending.setdefault(address, storage)
        return view

    def _record(self, rule: RecordingRule, args: Any, kwargs: Any, result: Any) -> None:
        """Record an operator that is part of a program."""
        operands: list[RecordedValue | HostNumber] = []
        dtype = number_dtype(args, result)
        arguments = tuple(
            self._argument(value, dtype if name in rule.inputs else None, operands)
            for name, value in zip(rule.arguments, args, strict=False)
            if name not in rule.ignored
        )
        keywords = tuple(
            (key, self._argument(value, dtype if key in rule.inputs else None, operands))
            for key, value in sorted(kwargs.items())
            if key not in rule.ignored
        )
        new_tensors = new_results(rule, result)
        written_positions = written_tensors(rule, args, kwargs)
        tensors = [
            tensor for tensor in (*new_tensors, *written_positions) if tensor.get_device() >= 0
        ]
        geometries = tuple([place_of(tensor)[1] for tensor in tensors])
        if rule.is_random:
            arguments = (*arguments, Operand(len(operands)))
            self.seed.event = self.repeats.event
            operands.append(self.seed)
        positions = result_positions(rule, result) if len(rule.returned) > 1 else ()
        signature = self._signature(
            rule.name, rule.plain, arguments, geometries, keywords, positions
        )
        for tensor, value in zip(tensors, self._results(signature, tuple(operands)), strict=True):
            self._write(tensor, value)
        if rule.is_random:
            self._advance_seed()

    def _argument(self, value: Any, dtype: Any, operands: list[RecordedValue | HostNumber]) -> Any:
        """An argument of a signature; its values and numbers become operands.

        `dtype` is that in which a number is read; None where numbers are constants.
        """
        operand: Any
        if isinstance(value, RecordedValue):
            operand = value
        elif isinstance(value, Tensor):
            operand = self._tensor(value, dtype)
            if not isinstance(operand, RecordedValue | HostNumber):
                return operand
        elif isinstance(value, list | tuple):
            return tuple([self._argument(part, dtype, operands) for part in value])
        elif dtype is not None and isinstance(value, int | float | complex):
            if is_special(value):
                return value
            operand = self.repeats.number(value, dtype)
        else:
            return value
        operands.append(operand)
        return Operand(len(operands) - 1)

    def _tensor(self, tensor: Tensor, dtype: Any) -> Any:
        """The value of a tensor; of a number on the host the number, which may be a constant."""
        if tensor.get_device() >= 0:
            return self.value_of(tensor)
        if tensor.dim():
            self.on_transfer("to")
            return RecordedValue(place_of(tensor)[1])
        number = tensor.item()
        if is_special(number):
            return number
        return self.repeats.number(number, dtype or tensor.dtype)

    def _results(
        self, signature: Signature, operands: tuple[RecordedValue | HostNumber, ...]
    ) -> tuple[RecordedValue, ...]:
        """The results of a call that is recorded now."""
        self._calls_since_settled += 1
        if self._calls_since_settled > MOST_CALLS:
            warnings.warn(
                f"{MOST_CALLS} operators were called and no step has ended: their programs are "
                "not counted; torch_xla.sync() ends a step",
                UncutWarning,
                stacklevel=2,
            )
            self.settle()
        call = self.repeats.call(signature, operands, self.lines.place(), next(self._numbers))
        return call.values

    def _replace_data(self, old_value: RecordedValue, new_value: RecordedValue) -> None:
        """Put data in the storage, the view and the seed that hold other data."""
        new_value.home = old_value.home
        if self.seed is old_value:
            self.seed = new_value
        storage = self.storages.get(old_value.home)
        if storage is None:
            return
        if storage.value is old_value:
            storage.value = new_value
        elif storage.views.get(old_value.geometry) is old_value:
            storage.views[old_value.geometry] = new_value
        if storage.origin is old_value:
            storage.origin = new_value

    def _write(self, tensor: Tensor, value: RecordedValue) -> None:
        """Note a new value of a tensor: of the whole memory, or of a part of it."""
        address, geometry = place_of(tensor)
        if not address:
            return
        storage = self.storages.get(address)
        if storage is None:
            storage = self.storages[address] = TensorStorage(data_at(geometry, address), address)
        if value.node is None:
            value.home = address
        base_geometry = storage.value.geometry
        if storage.origin is None and storage.value.node is None:
            storage.origin = storage.value
        if base_geometry == geometry or tensor.numel() * geometry[3].itemsize >= span_bytes(
            base_geometry
        ):
            storage.value, storage.views = value, {}
            if value.node is None:
                storage.origin = None
        else:
            signature = self._signature(
                SCATTER, SCATTER, (base_geometry, geometry), (base_geometry,)
            )
            (scattered_value,) = self._results(signature, (storage.value, value))
            storage.value, storage.views = scattered_value, {geometry: value.predecessor or value}
        if value.node is not None or storage.has_work:
            self.pending[address] = storage
        else:
            self.pending.pop(address, None)

    def _advance_seed(self) -> None:
        signature = self._signature(SEED, SEED, (), (SEED_GEOMETRY,))
        (self.seed,) = self._results(signature, (self.seed,))

    def _record_view(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Note a tensor that is a view; its value is a result while the tensor lives."""
        del name, args, kwargs
        address, geometry = place_of(result)
        storage = self.storages.get(address)
        if storage is not None and storage.views:
            view = storage.views.get(geometry)
            if view is not None and view.node is not None:
                view.event = self.repeats.event
                storage.hold(geometry, result)
                return
            if view is not None:
                del storage.views[geometry]  # a tensor of its own
        value = self.value_of(result)
        if address and self.storages[address].value is not value:
            self.storages[address].hold(geometry, result)

    def _record_unfold(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        """Record a view that the host computes; `repeat` unfolds new memory, which is a view."""
        if is_new(self.value_of(args[0])):
            self._record_view(name, args, kwargs, result)
            return
        self.on_read("aten::unfold_copy", [self.value_of(args[0])])
        self.on_transfer("from")
        address, geometry = place_of(result)
        storage = self.storages.get(address)
        if address and storage is not None and storage.value.geometry != geometry:
            storage.views[geometry] = data_at(geometry, address)
            storage.hold(geometry, result)

    def _record_clone(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        """Record a clone; a contiguous clone of another layout is no call in torch_xla."""
        source, memory_format = args[0], kwargs.get("memory_format")
        if memory_format is torch.contiguous_format and not source.is_contiguous():
            self._write(result, self.value_of(source).copy(place_of(result)[1]))
        else:
            self._record(rule_of(name), (source,), {}, result)

    def _record_empty(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        del name, args, kwargs
        self._fill_with(result, 0)

    def _record_fill(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        del name, kwargs
        self._fill_with(result, args[1] if len(args) > 1 else 0)

    def _fill_with(self, tensor: Tensor, number: Any) -> None:
        geometry = place_of(tensor)[1]
        operands: list[RecordedValue | HostNumber] = []
        arguments = (tuple(geometry[0]), self._argument(number, geometry[3], operands))
        signature = self._signature("aten::full", FILLED, arguments, (geometry,))
        self._write(tensor, self._results(signature, tuple(operands))[0])

    def _record_copy(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        """Record a copy: a call within the device, data from the host, a cut to the host."""
        del name, kwargs, result
        source, destination = args[0], args[1]
        if source.is_cpu:
            if not source.dim() and is_special(source.item()):
                self._fill_with(destination, source.item())
            else:
                self.on_transfer("to")
                self._write(destination, RecordedValue(place_of(destination)[1]))
        elif destination.is_cpu:
            self.on_read(COPIED, [self.value_of(source)])
            self.mark_computed(source)
            self.on_transfer("from")
        else:
            geometry = place_of(destination)[1]
            signature = self._signature("aten::_copy_from", COPY, (Operand(0),), (geometry,))
            self._write(destination, self._results(signature, (self.value_of(source),))[0])

    def _record_scalar(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Record a number that the host reads; its tensor stays lazy, as in torch_xla."""
        del kwargs, result
        self.on_read(name, [self.value_of(args[0])])
        self.on_transfer("from")

    def _read_on_host(self, rule: RecordingRule, args: Any, kwargs: Any, result: Any) -> None:
        """Record an operator of the host: the host reads its operands, its results are data."""
        operands = tensors_in([*args, *kwargs.values()])
        values = [self.value_of(tensor) for tensor in operands if tensor.get_device() >= 0]
        self.on_read(rule.host_name or rule.name, values)
        if values:
            self.on_transfer("from")
        for tensor in (*new_results(rule, result), *written_tensors(rule, args, kwargs)):
            if tensor.get_device() >= 0:
                self.on_transfer("to")
                self._write(tensor, RecordedValue(place_of(tensor)[1]))
