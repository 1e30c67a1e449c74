"""Loaders of batches on the device, with steps as torch_xla 2.9.0 counts them."""

import pytest
import torch


@pytest.mark.parametrize(("batches", "per_step", "ended"), [(5, 1, 7), (0, 1, 2), (4, 2, 3)])
def test_batches_come_in_order_and_end_steps(batches, per_step, ended):
    import torch_xla.debug.metrics as met
    import torch_xla.distributed.parallel_loader as pl

    data = [(torch.full((2,), float(at)), {"label": torch.tensor(at)}) for at in range(batches)]
    loader = pl.MpDeviceLoader(data, torch.device("xla"), batches_per_execution=per_step)
    assert len(loader) == batches
    seen = list(loader)
    assert [batch[1]["label"].item() for batch in seen] == list(range(batches))
    assert all(batch[0].is_xla for batch in seen)
    assert met.counter_value("MarkStep") == ended
    assert len(list(loader)) == batches


def test_batches_are_dealt_out_to_several_devices():
    import torch_xla.distributed.parallel_loader as pl

    loader = pl.ParallelLoader([torch.tensor(at) for at in range(5)], ["xla:0", "xla:1"])
    second = loader.per_device_loader(torch.device("xla:1"))
    assert len(second) == 2
    batches = list(second)
    assert [batch.item() for batch in batches] == [1, 3]
    assert {batch.device for batch in batches} == {torch.device("xla:1")}
    assert next(iter(loader.per_device_loader("xla:0"))).item() == 0
    assert loader.per_device_loader("xla:0").next().item() == 0
    loader.close()


def test_an_error_of_the_loader_is_the_programs():
    import torch_xla.distributed.parallel_loader as pl

    def broken():
        yield torch.ones(1)
        raise OSError("no disk")

    class Data:
        def __len__(self):
            return 2

        def __iter__(self):
            return broken()

    with pytest.raises(OSError, match="no disk"):
        list(pl.MpDeviceLoader(Data(), "xla"))


def test_a_loader_without_a_length_is_passed_over():
    import torch_xla.distributed.parallel_loader as pl

    loader = pl.MpDeviceLoader((torch.full((1,), float(number)) for number in range(3)), "xla")
    assert [batch.item() for batch in loader] == [0, 1, 2]
    with pytest.raises(TypeError, match="no len"):
        len(loader)


def test_what_has_no_batches_is_refused():
    import torch_xla.distributed.parallel_loader as pl

    with pytest.raises(pl.LoaderMisused, match="a loader 5; legal: batches") as refused:
        iter(pl.MpDeviceLoader(5, "xla"))
    assert refused.value.line.file == __file__


def test_a_device_is_one_of_the_loader():
    import torch_xla.distributed.parallel_loader as pl

    batches = [torch.ones(2)]
    (batch,) = pl.ParallelLoader(batches, ["xla"]).per_device_loader("xla:0")
    assert batch.tolist() == [1, 1]
    with pytest.raises(pl.LoaderMisused, match=r"per_device_loader\('xla:1'\); legal: xla:0"):
        pl.ParallelLoader(batches, ["xla"]).per_device_loader("xla:1")
    for devices in ([], "xla:0", torch.device("xla:0"), None):
        with pytest.raises(pl.LoaderMisused, match="legal: a list of devices"):
            pl.ParallelLoader(batches, devices)
