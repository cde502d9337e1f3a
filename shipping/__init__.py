"""Learning the tables that come with the package: the model of devices, the pool, prices of language models; not in the wheel."""
