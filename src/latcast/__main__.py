"""``python -m latcast`` and the script ``latcast``: the command, which Ctrl-C ends in one line while its modules load, too."""

from __future__ import annotations

import sys


def main() -> int:
    """Run one command; return its exit code, as :func:`latcast.cli.main.run` does."""
    try:
        from latcast.cli.main import run

        return run()
    except KeyboardInterrupt:
        print("latcast: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
