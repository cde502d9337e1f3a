"""Public facts of chips and their devices, and the chip that a text means."""
