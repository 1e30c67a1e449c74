@"%TRNSIM_PYTHON%" -P -m trnsim neuron-ls %*
