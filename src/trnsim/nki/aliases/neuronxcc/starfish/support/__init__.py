"""`neuronxcc.starfish.support`: casts and comparisons."""
