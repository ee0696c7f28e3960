"""Every ``grilly*`` distribution that is installed here comes from this workspace."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse

import importlib_metadata

ROOT = Path(__file__).parents[2]


def test_every_grilly_distribution_is_local():
    """The name ``grilly`` on the public index is somebody else's."""
    seen = set()
    for dist in importlib_metadata.distributions():
        name = dist.metadata["Name"]
        origin = dist.read_text("direct_url.json")
        if name.startswith("grilly") and origin is not None:
            folder = Path(unquote(urlparse(json.loads(origin)["url"]).path))
            assert folder.parent == ROOT, f"{name} was installed from {folder}"
            seen.add(name)
    assert {"grilly", "grilly-core", "grilly-backend-cpu", "grilly-testkit"} <= seen
