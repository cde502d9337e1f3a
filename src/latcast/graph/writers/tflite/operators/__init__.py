"""Functions that write operators: one an operator, registered with :func:`latcast.graph.writers.tflite.writer.emits`."""
