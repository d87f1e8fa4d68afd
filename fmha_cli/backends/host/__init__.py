"""What backends share whose kernels are those of a library on the CPU."""
