"""Functions of this package; each is published below ``grilly.functional`` by an entry point."""
