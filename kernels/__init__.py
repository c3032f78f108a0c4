"""Triton kernels, one a file, each beside its PyTorch twin; imported as `labkernels`, and independent of `lablib`."""
