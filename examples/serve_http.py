"""A model that adapts, behind HTTP, with clients that come when they like.

    python examples/serve_http.py --requests 200 --rate-hz 60

Starts a server on 127.0.0.1, sends it single images as a Poisson process, and prints what became of them. The server
part is `handler`: POST takes a normalised image as float32 bytes and answers 200 with the class, or 503 if the
pipeline dropped it; GET gives the pipeline's figures to Prometheus.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import urlopen

import torch

import tempora_tta as tempora
from tempora_tta import data, models
from tempora_tta.scenarios import Poisson
from tempora_tta.serving import Pipeline, prometheus

SHAPE = (1, 28, 28)


def handler(pipeline: Pipeline) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                image = torch.frombuffer(bytearray(body), dtype=torch.float32).reshape(SHAPE)
                answer = pipeline.submit(image).result()
            except (tempora.TemporaError, ValueError, RuntimeError) as mistake:
                self.reply(400, str(mistake))
                return
            if answer.dropped:
                self.reply(503, "too many requests at once")
            else:
                self.reply(200, json.dumps({"class": int(answer.scores.argmax())}))

        def do_GET(self) -> None:
            self.reply(200, prometheus(pipeline.stats()))

        def reply(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing per request."""

    return Handler


class Server(ThreadingHTTPServer):
    request_queue_size = 128


def load(port: int, images: torch.Tensor, rate_hz: float) -> Counter[int]:
    """Send every image at its time, without waiting for the answers before."""
    begin = time.perf_counter()

    def ask(image: torch.Tensor, due_s: float) -> int:
        time.sleep(max(0.0, begin + due_s - time.perf_counter()))
        try:
            with urlopen(f"http://127.0.0.1:{port}", image.numpy().tobytes(), timeout=60) as answer:
                return int(answer.status)
        except HTTPError as refused:
            return refused.code

    times_s = Poisson(rate_hz=rate_hz).times(len(images)) / 1000
    with ThreadPoolExecutor(len(images)) as clients:
        return Counter(clients.map(ask, images, times_s.tolist()))


def main(requests: int = 200, rate_hz: float = 60.0) -> Counter[int]:
    model = models.load("fashion_resnet")
    shift = data.open("fashion", shifts="contrast")["contrast"]
    stream = data.open_stream(shift, model.preprocessing, batch_size=requests, limit_batches=1, workers=0)
    knobs = {"batch_size": 16, "max_wait_ms": 100.0, "queue": 2, "fallback": "standard"}
    with tempora.deploy(model, "tent", device="cpu", **knobs) as pipeline:
        with Server(("127.0.0.1", 0), handler(pipeline)) as server:
            threading.Thread(target=server.serve_forever).start()
            try:
                statuses = load(server.server_port, stream.batch(0), rate_hz)
            finally:
                server.shutdown()
        stats = pipeline.stats()
    print(f"answers by status: {dict(statuses)}")
    for name in ("answered", "dropped", "fallback", "steps", "response_p50_ms", "response_p90_ms"):
        print(f"{name:16} {stats[name]}")
    return statuses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rate-hz", type=float, default=60.0)
    main(**vars(parser.parse_args()))
