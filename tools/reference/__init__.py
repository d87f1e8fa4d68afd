"""The pages of ``docs/reference``, one module for each kind; each reads what the program itself reads."""
