"""Tools for plug-ins' tests: contract suites, recorded measurements that play back, and networks to test on.

:mod:`latcast.testing.contracts` needs pytest; :mod:`latcast.testing.replay` and :mod:`latcast.testing.networks` do not.
"""
