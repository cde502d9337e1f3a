"""Architectures under a latency limit: bulk prediction over encodings, and the search on top of it."""
