"""One rank of a training: each argument is TASK:CONFIG:CONTEXT_PARALLEL:FSDP, trained one after another."""

import sys

import torch
import torch.distributed as dist
from ranks import join

from regard.training.runs import train


def main() -> None:
    join()
    for job in sys.argv[1:]:
        task, config, ranks, fsdp = job.split(":")
        torch.manual_seed(0)
        train(task, config, context_parallel=int(ranks), fully_sharded=fsdp == "fsdp")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
