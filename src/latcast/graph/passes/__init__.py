"""Passes from graph to graph, one a file, named for what they do."""
