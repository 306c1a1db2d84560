"""What is: the arrays of an episode, the rules by which time passes and jobs share GPUs, and true throughputs."""
