"""What is trained: an environment with its policies, as the trainer sees it."""
