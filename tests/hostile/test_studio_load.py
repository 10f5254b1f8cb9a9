"""Twenty clients for a minute, while the worker process is killed five times and 200 idle connections are held: nothing is lost."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the studio needs fastapi and uvicorn: pip install 'regard[studio]'")
CLIENTS, SECONDS, KILLS, IDLE = 20, 60.0, 5, 200


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the worker is found through /proc; run on Linux")
def test_nothing_is_lost() -> None:
    command = [sys.executable, "-m", "regard", "studio", "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    idle: list[socket.socket] = []
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[4]
        port, token = int(address.split(":")[2].split("/")[0]), address.partition("token=")[2]
        body = {"model": "shakespeare", "text": "ROMEO:\nBut, soft! what light"}

        def ask(path: str, content: object = None) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
            try:
                headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
                connection.request("GET" if content is None else "POST", path, None if content is None else json.dumps(content), headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()

        assert ask("/api/first/look")[0] == 200
        idle += [socket.create_connection(("127.0.0.1", port)) for _ in range(IDLE)]
        results: Counter[str] = Counter()
        wrong: list[str] = []
        until = time.monotonic() + SECONDS

        def client(number: int) -> None:
            turn = 0
            while time.monotonic() < until:
                turn += 1
                text = f"{number} {turn} {body['text']}"  # nothing is answered from a cache
                try:
                    status, answer = ask("/api/look", {**body, "text": text})
                except (OSError, http.client.HTTPException) as error:
                    status, answer = 0, repr(error).encode()
                results[str(status)] += 1
                if status == 200 and json.loads(answer)["read"] != len(text):
                    wrong.append(f"{text!r} was answered with another text")
                elif status == 503:
                    time.sleep(1)
                elif status != 200:
                    wrong.append(f"{status}: {answer[:200]!r}")

        threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            answered = results["200"]
            time.sleep(SECONDS / (KILLS + 1))
            while results["200"] == answered and time.monotonic() < until + 60:  # a job survives one kill, not two
                time.sleep(0.1)
            workers = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            os.kill(int(workers[0]), signal.SIGKILL)
        for thread in threads:
            thread.join(timeout=900)
            assert not thread.is_alive(), "a client was never answered"
        print(f"{CLIENTS} clients, {SECONDS:g} s, {KILLS} kills of the worker, {IDLE} idle connections: {dict(results)}")
        assert not wrong, wrong[:5]
        assert results["200"] > CLIENTS
        assert json.loads(ask("/api/health")[1])["restarts"] == KILLS
    finally:
        for connection in idle:
            connection.close()
        server.terminate()
        server.wait(60)
