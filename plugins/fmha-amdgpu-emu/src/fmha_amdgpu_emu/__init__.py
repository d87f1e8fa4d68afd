"""AMD GPUs emulated instruction by instruction: the devices ``emu:gfx90a``, ``emu:gfx942``, ``emu:gfx950``, ``emu:gfx1201``."""
