"""grilly."""
