"""Writes optim.json: what torch's AdamW makes of 35 numbers with the same gradients in each of four groups, over three steps.

  python3 make_optim.py > optim.json        needs torch

Weight k begins as (k mod 5 - 2) / 4; its gradient of step s is (k mod 7 - 3) (s + 1) / 8. No clipping. tests/unit/test_worker_optim.c
gives every tensor of a model these numbers, again and again."""
import json, sys
import torch

GROUPS = {"plain": (1e-2, 0.1), "block": (1e-3, 0.3), "norm": (5e-2, 0.0), "down": (1e-2, 0.0)}


def main():
    weights = {name: torch.tensor([(k % 5 - 2) / 4 for k in range(35)], dtype=torch.float64, requires_grad=True) for name in GROUPS}
    adam = torch.optim.AdamW([{"params": [weights[n]], "lr": lr, "weight_decay": decay} for n, (lr, decay) in GROUPS.items()], betas=(0.9, 0.95), eps=1e-8)
    out = {name: [] for name in GROUPS}
    for step in range(3):
        for name, w in weights.items():
            w.grad = torch.tensor([(k % 7 - 3) * (step + 1) / 8 for k in range(35)], dtype=torch.float64)
        adam.step()
        for name, w in weights.items():
            out[name].append([round(x, 9) for x in w.tolist()])
    json.dump(out, sys.stdout, separators=(",", ":"))
    print()


main()
