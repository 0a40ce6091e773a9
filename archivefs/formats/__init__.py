"""One package a format."""
