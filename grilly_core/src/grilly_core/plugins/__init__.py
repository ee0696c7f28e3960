"""Plugins: discovery without imports, loading one at a time, and what is known about packages not installed.

Importing this package imports nothing else. `grilly_core.plugins.loader` is the door for the rest of core;
authors of plugins need `grilly_core.plugins.hookspecs` and the entry-point groups listed in
`grilly_core.plugins.index`.
"""
