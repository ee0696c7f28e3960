"""grilly-testkit."""
