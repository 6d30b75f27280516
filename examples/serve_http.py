"""A model that adapts, behind HTTP, with clients that come when they like.

    pip install starlette uvicorn httpx
    python examples/serve_http.py --requests 200 --rate-hz 60

Starts a server on 127.0.0.1, sends it single images as a Poisson process, and prints what became of them. The server
part is `make_app`: three routes around one pipeline. POST /predict takes a normalised image as float32 bytes and
answers 200 with the class, or 503 if the pipeline dropped it; GET /metrics is for Prometheus.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections import Counter

import httpx
import numpy as np
import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import tempora_tta as tempora
from tempora_tta import data, models
from tempora_tta.engine.pipeline import prometheus
from tempora_tta.scenarios import Poisson

SHAPE = (1, 28, 28)


def make_app(pipeline: tempora.engine.Pipeline) -> Starlette:
    async def predict(request: Request) -> Response:
        body = await request.body()
        try:
            image = torch.frombuffer(bytearray(body), dtype=torch.float32).reshape(SHAPE)
            answer = await asyncio.wrap_future(pipeline.submit(image))
        except (tempora.TemporaError, ValueError, RuntimeError) as mistake:
            return JSONResponse({"error": str(mistake)}, status_code=400)
        if answer.dropped:
            return JSONResponse({"error": "too many requests at once"}, status_code=503)
        return JSONResponse({"class": int(answer.scores.argmax()), "response_ms": answer.response_ms})

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(prometheus(pipeline.stats()))

    return Starlette(routes=[Route("/predict", predict, methods=["POST"]), Route("/metrics", metrics)])


async def load(port: int, images: torch.Tensor, rate_hz: float) -> Counter[int]:
    """Send every image when its time has come, without waiting for the answers before."""
    times_s = Poisson(rate_hz=rate_hz).times(len(images)) / 1000
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        begin = time.perf_counter()

        async def ask(image: torch.Tensor, due_s: float) -> int:
            await asyncio.sleep(max(0.0, begin + due_s - time.perf_counter()))
            answer = await client.post("/predict", content=image.numpy().astype(np.float32).tobytes())
            return answer.status_code

        return Counter(await asyncio.gather(*map(ask, images, times_s.tolist())))


def main(requests: int = 200, rate_hz: float = 60.0) -> Counter[int]:
    model = models.load("fashion_resnet")
    shift = data.open("fashion", shifts="contrast")["contrast"]
    stream = data.open_stream(shift, model.preprocessing, batch_size=requests, limit_batches=1, workers=0)
    knobs = {"batch_size": 16, "max_wait_ms": 100.0, "queue": 2, "fallback": "standard"}
    with tempora.deploy(model, "tent", device="cpu", **knobs) as pipeline:
        server = uvicorn.Server(uvicorn.Config(make_app(pipeline), port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            statuses = asyncio.run(load(port, stream.batch(0), rate_hz))
        finally:
            server.should_exit = True
            thread.join()
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
