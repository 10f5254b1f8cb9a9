"""Check some models in this process, one JSON file each: `python worker.py FOLDER transformers bert gpt2 …`. Called by run.py."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

SECONDS = 60  # of processor time per model


class TookTooLong(Exception):
    pass


def _stop(*_: Any) -> None:
    raise TookTooLong(f"over {SECONDS} s of processor time")


def check_one(library: str, name: str) -> dict[str, Any]:
    from check import check

    if library == "transformers":
        import families

        try:
            model, inputs = families.build(name)
        except Exception as error:
            return {"status": "not built", "error": f"{type(error).__name__}: {str(error)[:300]}"}
        parameters = sum(p.numel() for p in model.parameters())
        doubled = {k: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for k, x in inputs.items()}
        found = check(
            model, lambda m: m(**inputs), eager=lambda m: m(**inputs, output_attentions=True), precise=lambda m, **o: m(**doubled, **o)
        )
        return {"status": "checked", "class": type(model).__name__, "parameters": parameters, **found}
    import libraries

    model, run = libraries.build(library, name)
    return {"status": "checked", "class": type(model).__name__, **check(model, run)}


def main() -> None:
    folder, library, *names = sys.argv[1:]
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, _stop)
    for name in names:
        path = Path(folder) / library / f"{name.replace('/', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"name": name, "status": "crashed"}))  # replaced below, if the process lives
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            found = check_one(library, name)
        except Exception as error:
            found = {"status": "failed", "error": f"{type(error).__name__}: {str(error)[:500]}", "trace": traceback.format_exc()[-3000:]}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        seconds, run = round(time.process_time() - start, 2), os.environ.get("COMPAT_RUN", "")
        path.write_text(json.dumps({"name": name, **found, "seconds": seconds, "run": run}, indent=1))


if __name__ == "__main__":
    main()
