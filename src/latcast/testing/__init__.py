"""Tools for plug-ins' tests: contract suites, which need pytest, and networks to test on."""
