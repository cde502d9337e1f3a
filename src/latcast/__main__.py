"""``python -m latcast`` is the ``latcast`` command."""

from __future__ import annotations

import sys

from latcast.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
