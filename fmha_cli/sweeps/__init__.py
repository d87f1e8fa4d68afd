"""Sweeps: many rows over many devices and hosts. The driver plans all rows and alone records them; workers run chunks of them."""
