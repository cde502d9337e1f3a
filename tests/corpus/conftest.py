"""Files that were found to break readers, kept beside the published data."""

from __future__ import annotations

import os
from pathlib import Path

CORPUS_VARIABLE = "LATCAST_CORPUS"

CORPUS = Path(os.environ.get(CORPUS_VARIABLE) or Path(__file__).resolve().parents[3] / "shared" / "corpus")


def corpus_files(*patterns: str) -> list[Path]:
    """The files that match any of some patterns, by name; none where there is no corpus."""
    return sorted(file for pattern in patterns for file in CORPUS.glob(pattern))
