"""Writes a SigLIP + MLP + Llama model with random weights, and what PyTorch makes of one batch, for gpu_test_parity full.

  python3 full_depth.py DIR [--small] [--device cuda]        needs torch, transformers 5, safetensors

DIR/encoder, DIR/projector, DIR/llm: Hugging Face directories in bf16, as save_pretrained writes them (the projector under
LLaVA's names). DIR/figures.safetensors: ids, labels (-1: nothing to learn, not shifted), lengths of the samples, placeholder,
pixels (uint8, items x height x width x 3), and of one forward and backward in float32 (TF32 off): loss (mean over the trained
tokens), tokens, norm of all gradients, grad.MODULE/TENSOR; peer.loss and peer.MODULE/TENSOR: the loss in bfloat16, and cosine and
norm ratio of its gradients to those in float32. --small: little layers, to try the script on a CPU.

The model is what a job trains: pictures to (x / 255 - 0.5) / 0.5, last_hidden_state of the encoder (after its final norm), linear,
GELU, linear, and these rows in place of the placeholders' embeddings; every sample is on its own.
"""
import argparse, json, os, time
import torch, torch.nn as nn
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, SiglipVisionConfig, SiglipVisionModel

args = argparse.ArgumentParser()
args.add_argument("dir")
args.add_argument("--small", action="store_true")
args.add_argument("--device", default="cuda")
args = args.parse_args()
torch.manual_seed(7)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
start = time.time()
small = args.small
VIS = dict(hidden_size=96, intermediate_size=208, num_hidden_layers=3, num_attention_heads=4, image_size=56, patch_size=14) if small \
    else dict(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16, image_size=384, patch_size=14)
LLM = dict(hidden_size=128, intermediate_size=320, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2, head_dim=16, vocab_size=999) if small \
    else dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64, vocab_size=128256)
vision = SiglipVisionConfig(**VIS)
llama = LlamaConfig(**LLM, tie_word_embeddings=True, rms_norm_eps=1e-5, max_position_embeddings=131072,
                    rope_parameters=dict(rope_type="default", rope_theta=500000.0))
ROWS = (vision.image_size // vision.patch_size) ** 2
V = llama.vocab_size
IMAGE = V - 1                                        # the placeholder's id


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear_1 = nn.Linear(vision.hidden_size, llama.hidden_size)
        self.linear_2 = nn.Linear(llama.hidden_size, llama.hidden_size)

    def forward(self, x):
        return self.linear_2(nn.functional.gelu(self.linear_1(x)))



def cast(module, dtype):
    """Parameters only: rope's frequencies stay in float32, as from_pretrained leaves them."""
    for p in module.parameters():
        p.data = p.data.to(dtype)


with torch.device(args.device):
    parts = {"vision.encoder": SiglipVisionModel._from_config(vision, attn_implementation="sdpa"), "vision.projector": Projector(),
             "llm": LlamaForCausalLM._from_config(llama, attn_implementation="sdpa")}
for module in parts.values():                        # norms and biases away from their neutral values, so that mistakes show
    module.train()
    for name, p in module.named_parameters():
        scale = 0.02 if p.dim() > 1 else 0.1 if "norm" in name and name.endswith("weight") else 0.02
        with torch.no_grad():
            p.normal_(0, scale)
            if p.dim() == 1 and "norm" in name and name.endswith("weight"):
                p.add_(1)
            p.copy_(p.bfloat16().float())            # what the files hold

folders = {"vision.encoder": "encoder", "vision.projector": "projector", "llm": "llm"}
for key, module in parts.items():
    folder = os.path.join(args.dir, folders[key])
    os.makedirs(folder, exist_ok=True)
    cast(module, torch.bfloat16)                     # exact
    if key == "vision.projector":
        save_file({n: p.detach().contiguous() for n, p in module.state_dict().items()}, os.path.join(folder, "model.safetensors"))
        json.dump(dict(model_type="mlp"), open(os.path.join(folder, "config.json"), "w"))
    else:
        module.save_pretrained(folder)
    cast(module, torch.float32)
print(f"weights written after {time.time() - start:.1f} s", flush=True)

# samples: (pictures, text before and between, text after)
g = torch.Generator().manual_seed(8)
plan = [(1, 5, 20), (2, 3, 9), (0, 0, 17)] if small else [(1, 64, 300), (2, 40, 251), (0, 0, 333)]
ids, labels, lengths, pictures = [], [], [], []
for n, before, after in plan:
    text = lambda k: torch.randint(0, V - 1, (k,), generator=g)
    one = torch.cat([t for _ in range(n) for t in (text(before), torch.full((ROWS,), IMAGE))] + [text(after)])
    label = one.clone()
    label[: len(one) - after + (after // 4 if n == 0 else 0)] = -100
    ids.append(one), labels.append(label), lengths.append(len(one)), pictures.append(n)
size = vision.image_size
pixels = torch.randint(0, 256, (sum(pictures), size, size, 3), dtype=torch.uint8, generator=g)
tokens = sum(int((l[1:] != -100).sum()) for l in labels)


def run(dtype):
    """Loss and gradients of the mean over all trained tokens, sample by sample."""
    for module in parts.values():
        cast(module, dtype)
        module.zero_grad(set_to_none=True)
    encoder, projector, llm = parts.values()
    loss, first = 0.0, 0
    for one, label, n in zip(ids, labels, pictures):
        one, label = one.to(args.device), label.to(args.device)
        embeds = llm.get_input_embeddings()(one)
        if n > 0:
            px = ((pixels[first:first + n].to(args.device).float() / 255 - 0.5) / 0.5).permute(0, 3, 1, 2).to(dtype)
            rows = projector(encoder(pixel_values=px).last_hidden_state).reshape(-1, llama.hidden_size)
            embeds = embeds.masked_scatter((one == IMAGE)[:, None], rows)
        first += n
        logits = llm(inputs_embeds=embeds[None], use_cache=False).logits[0, :-1]
        part = nn.functional.cross_entropy(logits.float(), label[1:], ignore_index=-100, reduction="sum") / tokens
        part.backward()
        loss += float(part.detach())
    grads = {f"{key}/{name}": p.grad for key, module in parts.items() for name, p in module.named_parameters() if p.grad is not None}
    return loss, grads


loss, grads = run(torch.float32)
grads = {k: v.clone() for k, v in grads.items()}
norm = float(torch.sqrt(sum(v.double().square().sum() for v in grads.values())))
print(f"float32: loss {loss:.7f}, norm {norm:.6g}, {tokens} tokens, {sum(lengths)} rows, after {time.time() - start:.1f} s", flush=True)
peer_loss, peer = run(torch.bfloat16)
out = {}
for k, v in grads.items():
    a, b = v.double().flatten(), peer[k].double().flatten()
    out["peer." + k] = torch.stack([a @ b / (a.norm() * b.norm()), b.norm() / a.norm()]).float().cpu()
    out["grad." + k] = v.cpu().contiguous()
    del a, b
worst = min((float(v[0]), k) for k, v in out.items() if k.startswith("peer.") and "k_proj.bias" not in k)
print(f"bfloat16: loss {peer_loss:.7f}, worst cosine {worst[0]:.6f} ({worst[1][5:]})", flush=True)
scalar = lambda x: torch.tensor([float(x)], dtype=torch.float32)
out |= {"ids": torch.cat(ids).int(), "labels": torch.cat([torch.where(l < 0, -1, l) for l in labels]).int(), "lengths": torch.tensor(lengths).int(),
        "placeholder": scalar(IMAGE), "pixels": pixels, "loss": scalar(loss), "tokens": scalar(tokens), "norm": scalar(norm),
        "peer.loss": scalar(peer_loss)}
save_file(out, os.path.join(args.dir, "figures.safetensors"))
print(f"written after {time.time() - start:.1f} s, {sum(t.numel() * t.element_size() for t in out.values()) / 2**30:.2f} GiB of figures", flush=True)
