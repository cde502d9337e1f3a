"""How a number is obtained: plan, isolated worker, environment, statistics, campaign."""
