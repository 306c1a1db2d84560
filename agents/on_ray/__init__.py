"""Training on RLlib with and without Ray: runners, learners, saved states. It knows no method."""
