"""Does the studio hold when a class of students opens it? Many clients translate and look for a while; every request must be answered.

A real server in a process of its own, real models (the shipped ones, and those given with --model), clients that ask again as soon as they
are answered. "Busy, come back in n seconds" is an answer, and clients do as it says. Memory is what the server and its worker hold.
    python benchmarks/studio.py [--clients 20] [--seconds 60] [--model FOLDER …]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# 64 characters each, which are 64 tokens of the shipped models.
CHINESE = "我爱中国。他昨天买了一本新书，可是我不知道他什么时候回来，也不知道他今天晚上想吃什么。我给你打电话，我们打车去吧。今天天气很好。"
TEXT = "ROMEO:\nBut, soft! what light through yonder window breaks? It is"


@dataclass
class Tally:
    """What one kind of request came to."""

    answered: list[float] = field(default_factory=list)  # seconds as the client saw them
    busy: int = 0
    lost: Counter[str] = field(default_factory=Counter)


TOKEN = ""  # of the server under test, from the line it prints


def ask(port: int, path: str, body: dict[str, object] | None, timeout: float = 120.0) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, json.dumps(body), {**headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def client(
    port: int, turn: int, jobs: list[tuple[str, str, dict[str, object]]], until: float, tallies: dict[str, Tally], lock: threading.Lock
) -> None:
    while time.monotonic() < until:
        name, path, body = jobs[turn % len(jobs)]
        turn += 1
        begin = time.monotonic()
        try:
            status, headers, _ = ask(port, path, body)
        except (OSError, http.client.HTTPException) as error:
            with lock:
                tallies[name].lost[type(error).__name__] += 1
            continue
        with lock:
            if status == 200:
                tallies[name].answered.append(time.monotonic() - begin)
            elif status == 503 and "retry-after" in headers:
                tallies[name].busy += 1
            else:
                tallies[name].lost[str(status)] += 1
        if status == 503:
            time.sleep(min(float(headers.get("retry-after", 1)), max(0.0, until - time.monotonic())))


def resident(process: int) -> dict[str, float]:
    """Megabytes held by the server and by its worker."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return {name: _pages(pid) for name, pid in zip(("server", "worker"), [str(process), *children], strict=False)}


def _pages(pid: str) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--model", action="append", default=[], help="a run's folder, beside the shipped models")
    parser.add_argument("--port", type=int, default=8599)
    given = parser.parse_args()
    command = [
        sys.executable,
        "-m",
        "regard",
        "studio",
        "--no-open",
        "--port",
        str(given.port),
        *(x for m in given.model for x in ("--model", m)),
    ]
    global TOKEN
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        TOKEN = server.stdout.readline().split()[4].partition("token=")[2]
        jobs = wait_until_warm(given.port)
        load, kinds = os.getloadavg()[0], ", ".join(name for name, _, _ in jobs)
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f} before; {kinds}")
        for body in looks(given.port):
            # Each time another beginning, so that nothing is answered from memory.
            told = [ask(given.port, "/api/look", {**body, "text": f"{n}{body['text'][1:]}"})[2] for n in range(10)]
            alone = [json.loads(answer)["seconds"] * 1000 for answer in told]
            worst = f"worst of {len(alone)}: {max(alone):.0f}"
            print(f"look at 64 tokens, {body['model']}: {statistics.median(alone):.0f} ms of server time ({worst})")
        tallies, lock = {name: Tally() for name, _, _ in jobs}, threading.Lock()
        begin = time.monotonic()
        threads = [
            threading.Thread(target=client, args=(given.port, i, jobs, begin + given.seconds, tallies, lock)) for i in range(given.clients)
        ]
        for thread in threads:
            thread.start()
        held = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(given.seconds / 6)
            held.append(resident(server.pid))
        for thread in threads:
            thread.join()
        report(given, tallies, held, time.monotonic() - begin)
        if any(tally.lost for tally in tallies.values()):
            sys.exit("requests were lost")
    finally:
        server.terminate()
        server.wait(20)


def wait_until_warm(port: int) -> list[tuple[str, str, dict[str, object]]]:
    """The requests to make: looking, and translating if a translator is here. Each is made once, so that models are open."""
    for _ in range(600):
        try:
            ask(port, "/api/first/look", None)
            break
        except OSError:
            time.sleep(0.2)
    jobs: list[tuple[str, str, dict[str, object]]] = [("look", "/api/look", dict(looks(port)[0]))]
    sentences = {"zh": "我爱中国。", "de": "Was möchtest du heute Abend essen?"}
    if translators := [m for m in known(port) if m["kind"] == "translator" and m["source"] in sentences]:
        chosen = max(translators, key=lambda m: m["bleu"])
        jobs.append(("translate", "/api/translate", {"models": [chosen["name"]], "text": sentences[chosen["source"]], "width": 4}))
    for _, path, body in jobs:
        ask(port, path, body)
    return jobs


def known(port: int) -> list[dict[str, Any]]:
    """The models of the studio."""
    return list(json.loads(ask(port, "/api/models", None)[2])["models"])


def looks(port: int) -> list[dict[str, str]]:
    """A text of 64 tokens for the language model, and for the best translator of Chinese if there is one."""
    models = known(port)
    reader = next(m["name"] for m in models if "shakespeare" in m["name"] or m["kind"] == "text")
    chinese = [m for m in models if m["kind"] == "translator" and m["source"] == "zh" and m["attention"]]
    best = [max(chinese, key=lambda m: m["bleu"])["name"]] if chinese else []
    return [{"model": reader, "text": TEXT}, *({"model": name, "text": CHINESE} for name in best)]


def report(given: argparse.Namespace, tallies: dict[str, Tally], held: list[dict[str, float]], seconds: float) -> None:
    print(f"{given.clients} clients for {seconds:.0f} s")
    print(f"{'':12}{'answered':>10}{'busy':>8}{'lost':>8}{'a second':>10}{'median':>10}{'95 %':>10}{'worst':>10}")
    for name, tally in tallies.items():
        times = sorted(tally.answered) or [float("nan")]
        marks = (statistics.median(times), times[int(0.95 * (len(times) - 1))], times[-1])
        lost = sum(tally.lost.values())
        cells = f"{len(tally.answered):>10,}{tally.busy:>8,}{lost:>8,}{len(tally.answered) / seconds:>10.1f}"
        print(f"{name:12}{cells}" + "".join(f"{1000 * mark:>7.0f} ms" for mark in marks) + (f"   {dict(tally.lost)}" if lost else ""))
    for name in held[0]:
        print(f"memory of the {name}: " + " → ".join(f"{row[name]:.0f}" for row in held if name in row) + " MB")


if __name__ == "__main__":
    main()
