"""Runnable demonstrations; each module has a ``main(arguments)``."""

#: The epoch of the plugin contracts that they are published for.
grilly_abi = 1
