"""The version of latcast, known to every room whether or not the package is installed."""

VERSION = "0.2.0"
