"""Answer clusters with any scheduler or trained policy, through a local socket.

python scripts/serve.py scheduler=starling
python scripts/serve.py checkpoint=checkpoints/anywhere address=127.0.0.1:6170
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch: waiting threads that spin slow down the others

from launch import command
from murmuration.config.describe import describe_service
from murmuration.config.descriptions import ServiceRun
from murmuration.runs.services import serve_run


@command("serve", describe_service, schedulers="starling")
def main(run: ServiceRun, folder: Path) -> None:
    """Listen and answer until it is interrupted."""
    serve_run(run)


if __name__ == "__main__":
    main()
