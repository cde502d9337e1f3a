"""How each operator is written: one function an operator, registered with :func:`latcast.graph.writers.tflite.writer.emits`."""
