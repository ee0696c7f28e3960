"""Runnable demonstrations; each module has a ``main(arguments)``."""
