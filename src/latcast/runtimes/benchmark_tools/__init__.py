"""Readers of what the runtimes' own benchmark tools print, timings and profiles, and the nodes that profiled lines compute."""
