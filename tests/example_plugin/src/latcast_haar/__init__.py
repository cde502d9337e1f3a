"""An example of a plug-in: pyproject.toml says what is where."""
