"""The peer of bench_worker_step model=DIR: one training step of a composite in transformers, random weights, one GPU.

model_peer.py DIR [SEQ [PICTURES [SIDE]]] [--modes eager,compile] [--steps N] [--cpu]

DIR holds the config.json that bench_worker_step reads too (tests/bench/models). A sample is SEQ rows with PICTURES square
pictures of SIDE pixels, in the same places. bf16, SDPA, AdamW (fused). Prints for every mode the median of forward and
backward, of the optimizer, LLM tokens/s and the peak of memory; a mode that does not run says why.
"""
import argparse
import time

import torch
import transformers


def sample(config, args, device, dtype):
    vision = config.vision_config
    side, merge = args.side // vision.patch_size, vision.spatial_merge_size
    rows, part = side * side // merge**2, args.seq // args.pictures
    gen = torch.Generator().manual_seed(1)
    ids = torch.randint(0, min(config.text_config.vocab_size, config.image_token_id) - 8, (1, args.seq), generator=gen)
    begins = [64 + i * part for i in range(args.pictures)]
    is_image = torch.zeros(1, args.seq, dtype=torch.long)
    for at in begins:
        ids[0, at:at + rows] = config.image_token_id
        ids[0, at - 1] = config.vision_start_token_id
        is_image[0, at:at + rows] = 1
    labels = ids.clone()
    labels[is_image == 1] = -100
    values = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    pixels = torch.randn(args.pictures * side * side, values, generator=gen)
    grid = torch.tensor([[1, side, side]] * args.pictures)
    return dict(input_ids=ids.to(device), labels=labels.to(device), mm_token_type_ids=is_image.to(device),
                pixel_values=pixels.to(device, dtype), image_grid_thw=grid.to(device))


def measure(model, mode, inputs, args, sync):
    torch._dynamo.reset()
    run = torch.compile(model) if mode == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    times = []
    began = time.time()
    for _ in range(args.steps):
        sync()
        start = time.time()
        loss = run(**inputs, use_cache=False).loss
        loss.backward()
        sync()
        middle = time.time()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        sync()
        times.append((middle - start, time.time() - middle))
        loss = loss.detach()
        if time.time() - began > args.limit and len(times) > 3:
            break
    steady = times[min(3, len(times) - 1):]
    middle = lambda i: sorted(t[i] for t in steady)[len(steady) // 2]
    return middle(0), middle(1), float(loss), times[0][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("seq", nargs="?", type=int, default=4096)
    parser.add_argument("pictures", nargs="?", type=int, default=4)
    parser.add_argument("side", nargs="?", type=int, default=768)
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--limit", type=float, default=60, help="seconds of a mode after which it ends early")
    parser.add_argument("--cpu", action="store_true", help="a look at whether it runs")
    args = parser.parse_args()
    device, dtype = ("cpu", torch.float32) if args.cpu else ("cuda", torch.bfloat16)
    sync = (lambda: None) if args.cpu else torch.cuda.synchronize
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(args.dir)
    with torch.device(device):
        torch.set_default_dtype(dtype)
        model = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa")
        torch.set_default_dtype(torch.float32)
    model = model.to(dtype).train()
    inputs = sample(config, args, device, dtype)
    name = "cpu" if args.cpu else torch.cuda.get_device_name()
    print(f"{args.dir}, {name}, torch {torch.__version__}, transformers {transformers.__version__}, "
          f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters, seq={args.seq} pictures={args.pictures} of {args.side}",
          flush=True)
    for mode in args.modes.split(","):
        if not args.cpu:
            torch.cuda.reset_peak_memory_stats()
        try:
            step, optimizer, loss, first = measure(model, mode, inputs, args, sync)
        except Exception as error:  # a peer that cannot do it is a result too
            print(f"{mode:8} {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        memory = 0 if args.cpu else torch.cuda.max_memory_allocated() / 2**30
        print(f"{mode:8} fwd+bwd {step * 1e3:8.1f} ms  optimizer {optimizer * 1e3:6.1f} ms  {args.seq / step:8.0f} tok/s "
              f"({args.seq / (step + optimizer):.0f} with optimizer)  mem {memory:.1f} GiB  loss {loss:.4f}  "
              f"first step {first:.1f} s", flush=True)


if __name__ == "__main__":
    main()
