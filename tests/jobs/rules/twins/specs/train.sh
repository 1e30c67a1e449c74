#!/bin/bash
export NEURON_RT_NUM_CORES=32
torchrun --nproc-per-node 32 train.py
