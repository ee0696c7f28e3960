"""grilly-core."""
