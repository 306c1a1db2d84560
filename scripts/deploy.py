"""Play a trace on a real Slurm and in the simulator, and explain the difference.

make slurm-up     # or your own cluster: testbed="" and SLURM_CONF
python scripts/deploy.py scheduler=[fifo,tiresias,starling] act=true
python scripts/deploy.py scheduler=starling checkpoint=checkpoints/anywhere scale=10 act=true
python scripts/deploy.py scheduler=starling    # shadow mode: decides and logs, starts nothing
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_deployment
from murmuration.config.descriptions import DeploymentRun
from murmuration.runs.deploying import deploy_run


@command("deploy", describe_deployment, schedulers="fifo")
def main(run: DeploymentRun, folder: Path) -> None:
    """Play each scheduler on the cluster, one after the other; print both results side by side."""
    deploy_run(run, folder)


if __name__ == "__main__":
    main()
