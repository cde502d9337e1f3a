"""Convolutions on OpenCL devices; the kernels are the .cl files here."""
