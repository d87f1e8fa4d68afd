"""Code that all GPU backends share, whatever the vendor."""
