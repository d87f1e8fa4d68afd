"""C++ that the emulators of all vendors share: findings and counts as JSON, the books about device memory, random order."""
