"""nn-Meter (Zhang et al., MobiSys 2021): its evaluation on the benchmark of variants, on platforms measured here."""
