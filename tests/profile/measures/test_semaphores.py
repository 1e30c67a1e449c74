from trnsim.profile.measures.semaphores import count_updates, updates, waits


def test_waits_are_the_programs_dependences(timeline):
    found = waits(timeline.program)
    for index in range(len(timeline)):
        earlier = found.earlier[found.later == index].tolist()
        assert earlier == list(timeline.program.waits_for(index))


def test_an_update_is_made_once_for_each_engine_that_waits(kernel):
    tile = kernel.load(128, 64)
    kernel.copy(tile)
    kernel.copy(tile)
    kernel.store(tile)
    found = updates(kernel.context.program)
    # The copies are on one engine; the store is a DMA, as the load is.
    assert (found.earlier.tolist(), found.later.tolist()) == ([0], [1])
    assert count_updates(kernel.context.program) == 1


def test_an_empty_program_updates_nothing(kernel):
    assert count_updates(kernel.context.program) == 0
