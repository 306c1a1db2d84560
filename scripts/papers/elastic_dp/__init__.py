"""The experiment of elastic scaling: batch sizes that change with the GPUs beside fixed ones."""
