"""Templates of the board: files, no code."""
