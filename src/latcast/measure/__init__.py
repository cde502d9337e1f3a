"""Measurements: plan, isolated worker, environment, statistics, campaign."""
