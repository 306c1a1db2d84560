"""Start and end a Slurm test cluster on this machine: fake GPUs, loopback only, everything in one folder.

python scripts/slurm_cluster.py up                    # make slurm-up
python scripts/slurm_cluster.py down                  # make slurm-down
python scripts/slurm_cluster.py record --out runs/recording  # a cluster with accounting plays 200 short jobs
python scripts/slurm_cluster.py advise --jobs 100      # waits without and with advice, and as shadow mode foretold them
python scripts/slurm_cluster.py up --nodes 3 --gpus 4 --folder /tmp/my_cluster --accounts accounts.yaml
"""

import argparse
from pathlib import Path

import launch  # noqa: F401  the project's packages are found

# isort: split
from deployment.slurm.accounting import Accounts, read_accounts, why_no_accounting
from deployment.slurm.recording import record
from deployment.slurm.testbed import start_testbed, stop_testbed, why_no_testbed
from experiments.slurm_advice import compare_advice, tabulate_waits
from murmuration.config.errors import one_line_errors


def main() -> None:
    """Start or end the cluster of a folder, or play jobs on one; say so where this machine cannot run one."""
    parser = argparse.ArgumentParser(description="Start and end a Slurm test cluster on this machine.")
    parser.add_argument("action", choices=["up", "down", "record", "advise"], help="record, advise: with jobs")
    parser.add_argument("--folder", type=Path, default=Path("runs/slurm_cluster"), help="of all its files")
    parser.add_argument("--nodes", type=int, default=8, help="number of nodes; default: 8")
    parser.add_argument("--gpus", type=int, default=8, help="fake GPUs of each node; default: 8")
    parser.add_argument("--types", default="v100,a100", help="GPU types, each of a partition; default: v100,a100")
    parser.add_argument("--out", type=Path, default=Path("runs/slurm_recording"), help="where to save what was seen")
    parser.add_argument("--jobs", type=int, default=200, help="that come to it; default: 200")
    parser.add_argument("--seed", type=int, default=0, help="from which they are drawn; default: 0")
    parser.add_argument("--outage", action="store_true", help="drain some nodes for a while")
    parser.add_argument("--accounts", type=Path, help="YAML file with accounts, users and qos")
    arguments = parser.parse_args()
    with one_line_errors():
        if arguments.action == "down":
            print(f"{stop_testbed(arguments.folder)} daemons ended")
        elif why := why_no_testbed() or (arguments.action == "record" and why_no_accounting()):
            print(why)
        elif arguments.action == "record":
            record(arguments.folder, arguments.out, arguments.jobs, arguments.seed, outage=arguments.outage)
            print(f"saved in {arguments.out}")
        elif arguments.action == "advise":
            print(tabulate_waits(compare_advice(arguments.folder, arguments.out, arguments.jobs, arguments.seed)))
        else:
            accounts = Accounts() if arguments.accounts is None else read_accounts(arguments.accounts)
            missing = why_no_accounting()
            shape = arguments.nodes, arguments.gpus, [each for each in arguments.types.split(",") if each]
            found = start_testbed(arguments.folder, *shape, None if missing else accounts)
            print(missing or "slurmdbd accounts for jobs: sacct, sacctmgr, sshare and sprio answer")
            print(f"{found.num_nodes} nodes of {found.num_gpus} GPUs are up: export SLURM_CONF={found.config}")
            print(f"slurmrestd listens: rest={found.rest}" if found.rest else "no slurmrestd")


if __name__ == "__main__":
    main()
