"""What schedulers and markets see, and what becomes of their answers."""
