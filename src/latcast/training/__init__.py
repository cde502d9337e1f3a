"""From measurements to predictors: profiling, training, adapting, judging."""
