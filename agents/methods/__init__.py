"""Methods of training, one file or folder each; none knows another."""
