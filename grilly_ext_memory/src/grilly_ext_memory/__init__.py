"""Memory and retrieval for grilly: distances, top-k, indexes, memory layers, semantic search."""

__version__ = "0.1.0"

#: The epoch of the plugin contracts that this package is written for.
grilly_abi = 1
