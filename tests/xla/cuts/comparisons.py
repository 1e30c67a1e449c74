"""Which calls of a step are compared by their signatures: a module by its name."""


def recorded(operation):
    """How many calls of a step are recorded anew or compared by their signature, step by step."""
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    repeats, counts = cuts.recorder.repeats, []
    call = repeats.call
    for number in range(6):
        compared = []

        def counted(signature, *rest, compared=compared):
            compared.append(signature.name)
            return call(signature, *rest)

        repeats.call = counted
        operation(number)
        torch_xla.sync()
        del repeats.call
        counts.append(len(compared))
    return counts
