"""The place of the Triton kernels (with lab 05); imported as `labkernels`, and independent of `lablib`."""
