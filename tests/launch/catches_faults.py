"""Three steps of a rank that goes on after faults, and what the state says of it then."""

import json
import os

import torch

from trnsim.device.faults import HardwareFault
from trnsim.instance.state.folder import state_folder
from trnsim.instance.state.reader import read_all

kept = torch.ones(2, device="neuron")
met = []
for _ in range(3):
    try:
        torch.neuron.synchronize()
    except HardwareFault as error:
        met.append(str(error).partition(" (")[0])
(own,) = (one for one in read_all(state_folder()) if one.pid == os.getpid())
counted = {name: count for name, count in {**own.executions, **own.errors}.items() if count}
print(json.dumps([met, own.instance, own.cores, counted]))
