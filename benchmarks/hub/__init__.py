"""The shared hub judged from the outside: what it holds, how fast it answers, what happens when it is attacked or starved.

``python -m benchmarks.hub`` lists the commands. Each starts what it needs on this machine, ends by itself, and prints figures.
"""
