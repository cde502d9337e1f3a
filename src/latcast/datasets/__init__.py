"""Measurements in one schema: store, importers of published sets and of stock tools' output, splits."""
