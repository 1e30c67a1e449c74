@"%TRNSIM_PYTHON%" -P -m trnsim nccom-test %*
