"""Process groups of the backend "xla", of which each rank makes its own alone."""

import os
import pickle

import pytest


def on_ranks(count, body, folder):
    """`body()` in ranks of a program, with what each gives."""
    import torch
    import torch_xla

    os.environ["NEURONCORE_NUM_DEVICES"] = str(count)

    def run(index):
        torch.set_num_threads(1)
        (folder / str(index)).write_bytes(pickle.dumps(body()))

    torch_xla.launch(run, start_method="fork")
    return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(count)]  # noqa: S301


@pytest.mark.slow
def test_each_rank_makes_its_own_groups_alone(tmp_path):
    """As neuronx_distributed does: two groups of a mesh at once, with the mesh in the options."""

    def body():
        import torch
        import torch.distributed as dist
        import torch_xla.core.xla_model as xm

        dist.init_process_group("xla")
        own = dist.get_rank()
        results = []
        for mesh in ([[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0], [1], [2], [3]], [[0, 1, 2, 3]]):
            ranks = next(ranks for ranks in mesh if own in ranks)
            group = dist.new_group(ranks, pg_options={"xla_pg_options": {"mesh": mesh}})
            value = torch.full((1,), 10.0**own, device="xla")
            dist.all_reduce(value, group=group)
            summed = xm.all_reduce(xm.REDUCE_SUM, value, groups=group._mesh)
            results.append((value.item(), summed.item(), group._mesh == mesh))
        return results

    pair = {0: 11.0, 1: 11.0, 2: 1100.0, 3: 1100.0}
    cross = {0: 101.0, 1: 1010.0, 2: 101.0, 3: 1010.0}
    for rank, result in enumerate(on_ranks(4, body, tmp_path)):
        assert result == [
            (pair[rank], 2 * pair[rank], True),
            (cross[rank], 2 * cross[rank], True),
            (10.0**rank, 10.0**rank, True),
            (1111.0, 4444.0, True),
        ]


def test_the_mesh_of_a_group_of_one_program():
    import torch.distributed as dist
    import torch_xla

    os.environ.pop("RANK", None)
    dist.init_process_group("xla")
    assert dist.group.WORLD._mesh == []
    assert dist.new_group([0])._mesh == [[0]]
    assert dist.new_group(range(1))._mesh == [[0]]
    assert dist.new_group(None)._mesh == []
    given = [[0], [1]]
    assert dist.new_group([0], pg_options={"xla_pg_options": {"mesh": given}})._mesh == given
    assert dist.new_group([0], backend="gloo")._mesh == []
    with pytest.raises(ValueError, match="duplicate"):
        dist.new_group([0, 0])


@pytest.mark.slow
def test_a_mesh_is_inferred_from_a_row_or_a_column(tmp_path):
    def body():
        import torch.distributed as dist

        dist.init_process_group("xla")
        own = dist.get_rank()
        options = {"xla_pg_options": {"spmd": True}}
        rows, columns = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
        groups = [
            dist.new_group(next(ranks for ranks in mesh if own in ranks), pg_options=options)
            for mesh in (rows, columns, [[0, 1, 2, 3]], [[own]])
        ]
        meshes = [group._mesh for group in groups]
        refused = []
        for ranks in ([0, 3], [1, 2], [1, 0], [0, 1, 2]):
            if own in ranks:
                with pytest.raises(ValueError, match=r"no row or column of \d in a rectangle of 4"):
                    dist.new_group(ranks, pg_options=options)
                refused.append(ranks)
        dist.barrier()  # rank 0 has the store with which the others still make groups
        return meshes, len(refused)

    for rank, (meshes, refused) in enumerate(on_ranks(4, body, tmp_path)):
        assert meshes[:3] == [[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 1, 2, 3]]]
        assert meshes[3] == [[0], [1], [2], [3]]
        assert refused == {0: 3, 1: 3, 2: 2, 3: 1}[rank]


def test_groups_of_another_backend_are_pytorchs_own():
    import torch.distributed as dist
    import torch_xla

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.new_group([0])._mesh == []


def test_a_group_of_nobody_has_no_mesh():
    import torch.distributed as dist
    import torch_xla

    dist.init_process_group("xla")
    group = dist.new_group([], pg_options={"xla_pg_options": {"spmd": True}})
    assert group == dist.GroupMember.NON_GROUP_MEMBER
