"""Writing graphs to files that runtimes load: ONNX, TFLite flatbuffer, ncnn text; no framework needed."""
