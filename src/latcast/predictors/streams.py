"""Streams of images on NPUs that work on several at once: what an image takes there, beside the latency of one alone."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from latcast.graph.ir import Graph
from latcast.records import Platform
from latcast.spaces.catalogue import build, model
from latcast.tables import milliseconds


def stream_sentence(platform: Platform, graph: Graph) -> str:
    """Return that a latency is of one image, and what was published of a stream of them on the platform."""
    frames_per_s = _published().get(platform.id, {}).get(graph.name)
    if frames_per_s and build(model(graph.name)).structure_key == graph.structure_key:
        each_ms = milliseconds(1e3 / frames_per_s)
        known = f"{frames_per_s:g} a second were published of this network in batches of 8, {each_ms} ms each"
    else:
        known = "how many a second is not known of this network"
    return f"the latency is of one image alone; images of a stream overlap: {known}"


@cache
def _published() -> dict[str, dict[str, float]]:
    """Return the frames a second by platform and network, from ``hailo_streams.json``, which names its source."""
    found = json.loads(Path(__file__).with_name("hailo_streams.json").read_text(encoding="utf-8"))
    return dict(found["frames_per_s"])
