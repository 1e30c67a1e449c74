"""`neuronxcc.starfish`: support functions that test suites import."""
