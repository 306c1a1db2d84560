"""Run OpenEvolve in the folder of `murmuration new-search`, with a stub in place of the language model.

murmuration new-search my_search --task shared-16
python scripts/recipes/openevolve_stub.py my_search --iterations 20
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LINE = re.compile(r"^ *for job in waiting\[.*$", re.MULTILINE)  # of the program, which the stub replaces
KEYS = ("view.remaining_time(waiting)", "view.num_gpus[waiting]", "view.submit_time[waiting]")


class StubModel(BaseHTTPRequestHandler):
    """Answers as a chat model does, with another order of the waiting jobs, drawn at random."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        line = LINE.findall(asked["messages"][-1]["content"])[-1]  # the last program is the present one
        powers = [f"{key} ** {random.uniform(-0.5, 1.5):.2f}" for key in random.sample(KEYS, 2)]
        new = f'        for job in waiting[({" * ".join(powers)}).argsort(kind="stable")]:'
        answer = f"<<<<<<< SEARCH\n{line}\n=======\n{new}\n>>>>>>> REPLACE"
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]}
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text)


def main() -> None:
    """Serve the stub, and run OpenEvolve beside it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="that murmuration new-search has written")
    parser.add_argument("--iterations", default="20", help="generations")
    parser.add_argument("--openevolve", default="openevolve-run", help="the command")
    given = parser.parse_args()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), StubModel)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    files = [given.folder / name for name in ("initial_program.py", "evaluator.py", "config.yaml")]
    words = [given.openevolve, *map(str, files[:2]), "--config", str(files[2]), "--iterations", given.iterations]
    words += ["--api-base", f"http://127.0.0.1:{listening.server_address[1]}/v1", "--primary-model", "stub"]
    keys = {**os.environ, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
    sys.exit(subprocess.run([*words, "--output", str(given.folder / "out")], env=keys).returncode)


if __name__ == "__main__":
    main()
