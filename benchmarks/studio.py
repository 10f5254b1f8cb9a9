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

# About 64 tokens of the shipped models. The parts are turned around for every request, so that nothing is answered from memory.
PARTS = {
    "shakespeare": ["ROMEO:\nBut, soft! ", "What light through ", "yonder window ", "breaks? It is "],
    "english": [
        "The old man went home with his small dog, ",
        "two children were playing football in the park, ",
        "a woman in a red coat bought some bread and a bottle of milk, ",
        "nobody knew when the train would come, ",
        "the sun was going down behind the hills and the river was quiet, ",
        "so we all went home, ",
    ],
    "zh": [
        "我爱中国。",
        "他昨天买了一本新书，",
        "可是我不知道他什么时候回来，",
        "也不知道他今天晚上想吃什么。",
        "我给你打电话，",
        "我们打车去吧。",
        "今天天气很好。",
    ],
    "de": [
        "Der alte Mann ist mit seinem kleinen Hund nach Hause gegangen. ",
        "Zwei Kinder spielen im Park Fußball. ",
        "Eine Frau in einem roten Mantel kauft Brot und eine Flasche Milch. ",
        "Niemand wusste, wann der Zug kommt. ",
        "Heute Abend essen wir mit unseren Freunden in der Stadt. ",
        "Es ist draußen zu kalt, um im Freien zu kochen. ",
    ],
}
SHORT = {
    "zh": ["我爱中国。", "他在看书。", "今天天气很好。", "我们打车去吧。", "你想吃什么？"],
    "de": ["Guten Morgen.", "Ich lese ein Buch.", "Es regnet heute.", "Wo ist der Bahnhof?", "Was möchtest du essen?"],
}


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
    arguments = parser.parse_args()
    command = [
        sys.executable,
        "-m",
        "regard",
        "studio",
        "--no-open",
        "--port",
        str(arguments.port),
        *(x for m in arguments.model for x in ("--model", m)),
    ]
    global TOKEN
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        TOKEN = server.stdout.readline().split()[4].partition("token=")[2]
        jobs = wait_until_warm(arguments.port)
        load, kinds = os.getloadavg()[0], ", ".join(name for name, _, _ in jobs)
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f} before; {kinds}")
        measure_alone(arguments.port)
        tallies, lock = {name: Tally() for name, _, _ in jobs}, threading.Lock()
        begin = time.monotonic()
        threads = [
            threading.Thread(target=client, args=(arguments.port, i, jobs, begin + arguments.seconds, tallies, lock))
            for i in range(arguments.clients)
        ]
        for thread in threads:
            thread.start()
        held = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(arguments.seconds / 6)
            held.append(resident(server.pid))
        for thread in threads:
            thread.join()
        report(arguments, tallies, held, time.monotonic() - begin)
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
    jobs: list[tuple[str, str, dict[str, object]]] = [
        ("look", "/api/look", {"model": looks(port)[0][0], "text": "".join(looks(port)[0][1])})
    ]
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


def looks(port: int) -> list[tuple[str, list[str]]]:
    """The models to look with and the parts of their texts: the shipped language models, and the best translator of each language."""
    models = known(port)
    names = [(name, PARTS[name]) for name in ("shakespeare", "english") if any(m["name"] == name for m in models)]
    if not names:
        names = [(next(m["name"] for m in models if m["kind"] == "text"), PARTS["english"])]
    return names + [(name, PARTS[source]) for source, name in best_translators(port).items()]


def best_translators(port: int) -> dict[str, str]:
    """The translator with attention and the highest BLEU, by source language."""
    found: dict[str, Any] = {}
    for model in known(port):
        if model["kind"] == "translator" and model["source"] in SHORT and model["attention"]:
            found[model["source"]] = max(found.get(model["source"], model), model, key=lambda m: m["bleu"])
    return {source: model["name"] for source, model in found.items()}


def measure_alone(port: int) -> None:
    """Print the server time of looking and of translating a short sentence while nobody else asks."""
    for name, parts in looks(port):
        texts = [start + "".join(parts[n:] + parts[:n]).strip() for start in ("", "- ") for n in range(len(parts))]
        told = [json.loads(ask(port, "/api/look", {"model": name, "text": text})[2]) for text in texts][1:]  # the first opens the model
        tokens = f"{min(one['read'] for one in told)} to {max(one['read'] for one in told)} tokens"
        print(f"look at {tokens}, {name}: {_milliseconds([one['seconds'] for one in told])}")
    for source, name in best_translators(port).items():
        asked = [{"models": [name], "text": text, "width": 4} for text in SHORT[source]]
        told = [json.loads(ask(port, "/api/translate", body)[2]) for body in asked * 3][1:]
        print(f"translate a short sentence, {name}: {_milliseconds([one['seconds'] for one in told])}")


def _milliseconds(seconds: list[float]) -> str:
    times = [1000 * s for s in seconds]
    return f"{statistics.median(times):.0f} ms of server time (median of {len(times)}; worst {max(times):.0f})"


def report(arguments: argparse.Namespace, tallies: dict[str, Tally], held: list[dict[str, float]], seconds: float) -> None:
    print(f"{arguments.clients} clients for {seconds:.0f} s")
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
