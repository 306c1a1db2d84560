"""Predictors of run times on jobs that they have not seen."""
