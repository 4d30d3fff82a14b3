"""Our attention beside PyTorch's, under the same masks, in one run on one GPU: case by case, first
ours, then at once the peer's, so that both meet the card equally warm (a card that has worked for
a minute is a tenth slower than a rested one).

    python3 tests/bench/attention_peer.py BENCH PLUGIN [--no-flex] [CASE...]

BENCH and PLUGIN are build/bin/bench_attention and build/lib/libcornstarch-cuda.so; a CASE is the
begin of a name that BENCH prints, such as packed-16384. The peer of causal and full masks, and of
images of equal size, is SDPA forced to cuDNN; the peer of every other mask is FlexAttention with a
block mask. FlexAttention compiles for half a minute per case: --no-flex leaves it out.
"""
import array
import os
import re
import subprocess
import sys
import tempfile

import torch
import torch._dynamo
import torch._functorch.config
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

CAUSAL, FULL, IMAGE_BIDIR, ITEM = 0, 1, 3, 6  # enum cs_mask_kind
WARMUP, ROUNDS = 3, 11
LINE = re.compile(
    r"(?P<name>\S+) +(?P<n>\d+) D=(?P<dim>\d+) +(?P<heads>\d+):(?P<kv>\d+) +allowed (?P<share>\S+)"
    r".*fwd +(?P<fwd_ms>\S+) ms +(?P<fwd>\d+) +bwd +(?P<bwd_ms>\S+) ms +(?P<bwd>\d+)")


def median_ms(call):
    times = []
    for i in range(WARMUP + ROUNDS):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        if i >= WARMUP:
            times.append(begin.elapsed_time(end))
    return sorted(times)[ROUNDS // 2]


def read_mask(path):
    words = array.array("i")
    with open(path, "rb") as file:
        words.frombytes(file.read())
    n, kind = words[0], words[1]
    doc = torch.tensor(words[2:2 + n], dtype=torch.int32, device="cuda")
    item = torch.tensor(words[2 + n:2 + 2 * n], dtype=torch.int32, device="cuda")
    return kind, doc, item


def rule_of(kind, doc, item):
    """The rule as FlexAttention wants it; text of our masks sees every modality."""

    def causal(b, h, q, k):
        return (doc[q] == doc[k]) & (q >= k)

    def image_bidir(b, h, q, k):
        return (doc[q] == doc[k]) & ((q >= k) | ((item[q] >= 0) & (item[q] == item[k])))

    def own_item(b, h, q, k):
        return (doc[q] == doc[k]) & torch.where(item[q] < 0, q >= k, item[q] == item[k])

    def full(b, h, q, k):
        return doc[q] == doc[k]

    return {CAUSAL: causal, FULL: full, IMAGE_BIDIR: image_bidir, ITEM: own_item}[kind]


def operands(batch, heads, kv, n, dim):
    def random(h):
        return torch.randn(batch, h, n, dim, device="cuda", dtype=torch.bfloat16,
                           requires_grad=True)

    q, k, v = random(heads), random(kv), random(kv)
    return q, k, v, torch.randn_like(q)


def both_ways(forward, q, k, v, d_o):
    fwd = median_ms(forward)
    out = forward()
    bwd = median_ms(lambda: torch.autograd.grad(out, (q, k, v), d_o, retain_graph=True))
    return fwd, bwd


def cudnn(case, is_causal, batch):
    n = case["n"] // batch
    q, k, v, d_o = operands(batch, case["heads"], case["kv"], n, case["dim"])

    def forward():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal,
                                                  enable_gqa=case["heads"] != case["kv"])

    return both_ways(forward, q, k, v, d_o)


def flex(case, kind, doc, item):
    n = case["n"]
    q, k, v, d_o = operands(1, case["heads"], case["kv"], n, case["dim"])
    mask = create_block_mask(rule_of(kind, doc, item), None, None, n, n, device="cuda")
    torch._dynamo.reset()  # one graph per case: no limit of recompilations, no dynamic shapes
    compiled = torch.compile(flex_attention, dynamic=False)

    def forward():
        return compiled(q, k, v, block_mask=mask, enable_gqa=case["heads"] != case["kv"])

    return both_ways(forward, q, k, v, d_o)


def peer_of(case, path, with_flex):
    kind, doc, item = read_mask(path)
    sizes = torch.bincount(doc)
    is_uniform = bool((sizes == sizes[0]).all())
    if kind == FULL and is_uniform:
        return "cuDNN", lambda: cudnn(case, False, len(sizes))
    if kind == CAUSAL and len(sizes) == 1:
        return "cuDNN", lambda: cudnn(case, True, 1)
    return "Flex", (lambda: flex(case, kind, doc, item)) if with_flex else None


def compare(case, path, with_flex):
    peer, measure = peer_of(case, path, with_flex)
    title = f"{case['name']:12} {case['n']:6} D={case['dim']:3}"
    ours = f"ours {case['fwd_ms']:7.3f} {case['bwd_ms']:7.3f} ms {case['fwd']:4}/{case['bwd']:4}"
    if measure is None:
        print(f"{title}  {ours}", flush=True)
        return
    try:
        fwd, bwd = measure()
    except Exception as error:  # a peer that cannot do the case is a result too
        print(f"{title}  {ours}  {peer}: {type(error).__name__}: {str(error)[:90]}", flush=True)
        return
    print(f"{title}  {ours}  {peer:5} {fwd:7.3f} {bwd:7.3f} ms "
          f"{case['fwd'] * case['fwd_ms'] / fwd:4.0f}/{case['bwd'] * case['bwd_ms'] / bwd:4.0f}"
          f"  ratio {fwd / case['fwd_ms']:.2f}x / {bwd / case['bwd_ms']:.2f}x", flush=True)


def names_of(bench, wanted):
    out = subprocess.run([bench, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return [name for name in out.stdout.split()
            if not wanted or any(name.startswith(begin) for begin in wanted)]


def our_case(bench, plugin, masks, name):
    out = subprocess.run([bench, plugin, "--masks", masks, name], stdout=subprocess.PIPE,
                         text=True, check=False)
    for line in out.stdout.splitlines():
        found = LINE.match(line)
        if found:
            print(line, flush=True)
            return {key: value if key == "name" else float(value) if "." in value else int(value)
                    for key, value in found.groupdict().items()}
    return None


def main():
    args = [a for a in sys.argv[1:] if a != "--no-flex"]
    if len(args) < 2:
        sys.exit(__doc__)
    torch.manual_seed(1)
    torch._functorch.config.donated_buffer = False  # the graph is run backward many times
    with tempfile.TemporaryDirectory() as masks:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; "
              "ms and TFLOP/s of allowed pairs, forward and backward; ratio: times faster than the peer")
        for name in names_of(args[0], args[2:]):
            case = our_case(args[0], args[1], masks, name)
            if case is not None:
                path = os.path.join(masks, f"{case['name']}-{case['n']}.mask")
                compare(case, path, "--no-flex" not in sys.argv)


if __name__ == "__main__":
    main()
