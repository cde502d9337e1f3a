"""Convolutions on WebGPU; the shaders are the .wgsl files here."""
