"""The published attention kernels of NVIDIA's cudnn-frontend as CUDA translation units of one kernel each."""
