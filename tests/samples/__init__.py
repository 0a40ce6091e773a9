"""Sample archives, written by code: for the tests, the README's sessions and the demo."""
