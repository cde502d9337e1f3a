"""A worker that offers the runtime of :mod:`tests.measure.behaving`: ``python -m tests.cluster.behaving_worker ADDRESS``."""

from __future__ import annotations

import sys

from latcast.cluster import serve
from tests.measure.behaving import settings

if __name__ == "__main__":
    serve(sys.argv[1], {settings().offer: 1.0})
