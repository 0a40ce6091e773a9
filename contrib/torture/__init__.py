"""Long runs that a test suite has no time for."""
