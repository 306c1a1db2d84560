"""Choose GPUs and batch sizes of all jobs by a dynamic program over measured scaling (Saxena et al., MASCOTS'20)."""

from baselines.elastic_dp.scheduler import ElasticDp

__all__ = ["ElasticDp"]
