"""Links between chips and instances, and the time of exchanges between ranks over them."""
