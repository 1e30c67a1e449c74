#!/usr/bin/env python3
"""AWS's name for `trnsim neuron-monitor-k8s-info`, run by the interpreter that has trnsim."""

import os
import sys

python = os.environ.get("TRNSIM_PYTHON", sys.executable)
command = [python, "-P", "-m", "trnsim", "neuron-monitor-k8s-info", *sys.argv[1:]]
os.execv(python, command)  # noqa: S606
