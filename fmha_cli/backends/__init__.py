"""Built-in backends. Nothing imports them statically: the registry and the worker load them by import path."""
