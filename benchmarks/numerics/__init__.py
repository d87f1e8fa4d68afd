"""What honest and faulty fused kernels return, and how well the rules that judge kernels tell them apart."""
