"""Architectures under a latency limit: bulk prediction over encodings, and the search on top of it."""

from latcast.search.encodings import EncodedLatencies, EncodingPredictor

__all__ = ["EncodedLatencies", "EncodingPredictor"]
