"""Jiang et al. (APSys 2020), from sweeps of work-group sizes that were measured on other devices than its phones."""
