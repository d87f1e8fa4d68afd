"""The results of honest and faulty fused kernels, and how well the judging rules distinguish them."""
