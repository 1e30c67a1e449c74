"""Instructions of the Vector Engine, and those that several lane engines share."""
