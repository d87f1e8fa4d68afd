"""The build room: find a compiler, compile, and keep the result in a content-addressed cache."""
