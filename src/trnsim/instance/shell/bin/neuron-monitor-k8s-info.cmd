@"%TRNSIM_PYTHON%" -P -m trnsim neuron-monitor-k8s-info %*
