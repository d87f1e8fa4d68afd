"""The CK-Tile backend: ROCm's fused attention kernels, from the headers of Composable Kernel."""
