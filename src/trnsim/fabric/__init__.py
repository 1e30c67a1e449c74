"""Links between chips and instances, and the time of what ranks exchange over them."""
