"""What differs between operating systems, one module for each concern; every system call that one of them lacks is here."""
