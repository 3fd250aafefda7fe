#!/usr/bin/env python3
"""Times ncclAllGather between the GPUs of one machine, as lockstep-exchange-cuda-benchmark times an exchange.

    bench/peers/nccl_all_gather.py --ranks 2 8192 262144

BYTES is what every rank has in the end. Microseconds of one call: the median over replays of a graph of 100 calls, on
rank 0, while the other ranks replay theirs. One JSON object a line. Needs PyTorch with NCCL. NVLink multicast is off,
as in Lockstep, unless NCCL_NVLS_ENABLE says otherwise.
"""

import argparse
import json
import os
import statistics
import tempfile

import torch
import torch.distributed
import torch.multiprocessing

CALLS_PER_GRAPH = 100
REPLAYS = 25


def measure(rank, ranks, gathered_bytes):
    columns = torch.zeros(gathered_bytes // ranks, dtype=torch.uint8, device="cuda")
    output = torch.empty(gathered_bytes, dtype=torch.uint8, device="cuda")

    def gather():
        torch.distributed.all_gather_into_tensor(output, columns)

    gather()  # the first call sets up what NCCL needs
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS_PER_GRAPH):
            gather()
    microseconds = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()  # its first calls wait for ranks that come late
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        microseconds.append(1000 * begin.elapsed_time(end) / CALLS_PER_GRAPH)
    if rank == 0:
        us = round(statistics.median(microseconds), 2)
        print(json.dumps({"ranks": ranks, "gathered_bytes": gathered_bytes, "way": "NCCL", "us": us}), flush=True)


def run(rank, ranks, sizes, meeting_place):
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl", init_method=f"file://{meeting_place}", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank)
    )
    for gathered_bytes in sizes:
        measure(rank, ranks, gathered_bytes)
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("sizes", type=int, nargs="+", metavar="BYTES")
    options = parser.parse_args()
    odd = [str(size) for size in options.sizes if size % options.ranks != 0]
    if odd:
        parser.error(f"{options.ranks} ranks cannot have equal parts of {', '.join(odd)} bytes")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    with tempfile.TemporaryDirectory() as folder:
        meeting_place = os.path.join(folder, "ranks")
        torch.multiprocessing.spawn(run, args=(options.ranks, options.sizes, meeting_place), nprocs=options.ranks)


if __name__ == "__main__":
    main()
