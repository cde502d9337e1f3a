"""Training of predictors from measurements: profiling, fitting, adapting, judging."""
