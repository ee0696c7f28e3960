"""grilly-backend-cpu."""
