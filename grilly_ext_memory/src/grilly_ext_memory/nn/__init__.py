"""Modules of this package; each is published below ``grilly.nn`` by an entry point."""
