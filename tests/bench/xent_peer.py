#!/usr/bin/env python3
"""Linear layer and cross-entropy in PyTorch, forward and backward, in chunks of rows: the peer of bench_gpu_ops'
"linear xent" rows. Needs torch with CUDA; run both on the same card, one after the other:

    build/bin/bench_gpu_ops build/lib/libcornstarch-cuda.so "linear xent"; tests/bench/xent_peer.py

bf16, random normal data, median of 11 after 3 warm-up runs; FLOPs counted as 6 x rows x width x vocabulary.
"""
import statistics
import sys

import torch
import torch.nn.functional as F

SHAPES = [(4096, 2048, 128256), (1180, 2048, 128256), (1024, 2048, 128256)]  # 1180: labels of bench_worker_step
WARMUP, ROUNDS = 3, 11


def loss_of(x, w, labels):
    return F.cross_entropy((x @ w.T).float(), labels, reduction="sum")


def step(loss_fn, chunk, x, w, labels, dx, dw):
    """Loss sum; dx is overwritten, dw (fp32) accumulated. chunk 0: all rows at once."""
    total = torch.zeros((), device=x.device, dtype=torch.float64)
    chunk = chunk or x.shape[0]
    for begin in range(0, x.shape[0], chunk):
        part = x[begin:begin + chunk].detach().requires_grad_()
        loss = loss_fn(part, w, labels[begin:begin + chunk])
        grad_x, grad_w = torch.autograd.grad(loss, (part, w))
        dx[begin:begin + chunk] = grad_x
        dw += grad_w
        total += loss.detach()
    return total


def median_ms(call):
    for _ in range(WARMUP):
        call()
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def main():
    if not torch.cuda.is_available():
        print("no GPU", file=sys.stderr)
        return 77
    torch.manual_seed(1)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, bf16, median of {ROUNDS}")
    compiled = torch.compile(loss_of, dynamic=False)
    for rows, width, vocab in SHAPES:
        x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
        w = (torch.randn(vocab, width, device="cuda") / width ** 0.5).bfloat16().requires_grad_()
        labels = torch.randint(vocab, (rows,), device="cuda")
        dx, dw = torch.empty_like(x), torch.zeros(vocab, width, device="cuda")
        for name, fn, chunk in (("eager, whole", loss_of, 0), ("eager, chunks of 1024", loss_of, 1024),
                                ("compiled, whole", compiled, 0), ("compiled, chunks of 1024", compiled, 1024)):
            if chunk >= rows:
                continue
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            ms = median_ms(lambda: step(fn, chunk, x, w, labels, dx, dw))
            extra = (torch.cuda.max_memory_allocated() - before) / 2 ** 20
            print(f"{name:<26} {rows}x{width}x{vocab} {ms:9.4f} ms {6e-9 * rows * width * vocab / ms:8.1f} TFLOP/s "
                  f"{extra:8.0f} MiB more", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
