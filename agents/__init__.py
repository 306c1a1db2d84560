"""The learned side: the only place that knows torch and ray."""
