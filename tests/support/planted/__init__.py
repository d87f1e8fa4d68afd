"""Faults that are planted in the text of real kernels, and how an emulated device catches them."""
