"""Writes the small language models of models/ that are not in the older set, with their exact behaviour.

  python3 tests/golden/make_llms.py DIR [NAME...]      needs torch and transformers; CPU, float32, eager attention

The keys of golden.safetensors are those that README.md lists."""
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

VOCAB = 67
small = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2, rms_norm_eps=1e-6,
             bos_token_id=1, eos_token_id=2, pad_token_id=0)
tiny = dict(small, hidden_size=16, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1)
MODELS = {
    # two kinds of attention in one model: 6 tokens back, everything, 6 tokens back
    "qwen2-window": ("Qwen2Config", dict(
        tiny, tie_word_embeddings=True, use_sliding_window=True, sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    # norms of every head of q and k, heads that are not width / heads wide
    "qwen3": ("Qwen3Config", dict(small, head_dim=12, tie_word_embeddings=False)),
    # a norm behind each half, heads by kind of layer, keys that are values, a number behind each block, a cap
    "gemma4": ("Gemma4TextConfig", dict(
        small, head_dim=8, global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True,
        hidden_size_per_layer_input=0, sliding_window=6, final_logit_softcapping=20.0,
        layer_types=["sliding_attention", "full_attention", "full_attention"])),
    # one tensor for q, k and v, one for gate and up; half of each head turns, by other frequencies beyond 16
    "phi3": ("Phi3Config", dict(
        small, sliding_window=9, original_max_position_embeddings=16,
        rope_parameters=dict(rope_type="longrope", rope_theta=1e4, partial_rotary_factor=0.5,
                             short_factor=[1.0, 1.5], long_factor=[1.0, 4.0]))),
    # queries that grow with their position, YaRN
    "ministral3": ("Ministral3Config", dict(
        small, head_dim=12, rope_parameters=dict(
            rope_type="yarn", rope_theta=1e4, factor=8.0, original_max_position_embeddings=8, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1))),
    # experts in every block, more than top_k of them idle for some rows
    "mixtral": ("MixtralConfig", dict(small, num_hidden_layers=2, intermediate_size=24, num_local_experts=5,
                                      num_experts_per_tok=2)),
    # experts in one block of three, with the balancing loss: the class takes its means over all such blocks
    "qwen3-moe": ("Qwen3MoeConfig", dict(
        small, head_dim=8, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[0, 2], output_router_logits=True, router_aux_loss_coef=0.5)),
    # the balancing loss of several blocks with experts, behind one without and alone
    "qwen3-moe-balance": ("Qwen3MoeConfig", dict(
        tiny, num_hidden_layers=4, head_dim=8, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12,
        norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[0], output_router_logits=True,
        router_aux_loss_coef=0.5)),
    "mixtral-balance": ("MixtralConfig", dict(
        tiny, num_hidden_layers=3, intermediate_size=12, num_local_experts=5, num_experts_per_tok=2,
        output_router_logits=True, router_aux_loss_coef=0.3)),
    # the gated delta rule with two heads of values for each of keys, attention with a gate
    "qwen3.5": ("Qwen3_5TextConfig", dict(
        small, head_dim=16, layer_types=["linear_attention", "full_attention", "linear_attention"],
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=5,
        linear_conv_kernel_dim=3, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_interleaved=True,
                             mrope_section=[2, 1, 1]))),
}


def batch():
    """Two samples of 23 tokens; some positions do not train."""
    ids = torch.randint(3, VOCAB, (2, 23), generator=torch.Generator().manual_seed(1))
    labels = ids.clone()
    labels[:, :5] = -100
    labels[0, 11:14] = -100
    labels[1, 19:] = -100
    return ids, labels


def reported(name, model, out):
    """What a job reports: the loss without that of balance, which is trained all the same; here the sum, where
    a model's name says so."""
    balance = None if name.endswith("-balance") else getattr(out, "aux_loss", None)
    return out.loss.detach() if balance is None else out.loss.detach() - model.config.router_aux_loss_coef * balance.detach()


def five_steps(name, model, forward):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)],
                                  lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for _ in range(5):
        optimizer.zero_grad()
        out = forward()
        out.loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        losses.append(float(reported(name, model, out)))
        optimizer.step()
    return torch.tensor(losses), torch.tensor(norms)


def write(name, directory):
    torch.manual_seed(0)
    kind, options = MODELS[name]
    config = getattr(transformers, kind)(**options)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().train()
    for p in model.parameters():  # norms and biases away from their neutral values, so that mistakes show
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
    for n, b in model.named_buffers():
        if n.endswith("layer_scalar"):
            b.data.fill_(0.9)
    model.save_pretrained(directory)
    os.remove(os.path.join(directory, "generation_config.json"))
    ids, labels = batch()

    def forward():
        return model(input_ids=ids, labels=labels, output_hidden_states=True, use_cache=False)

    out = forward()
    out.loss.backward()
    tensors = {"in.ids": ids, "in.labels": labels, "out.tokens": (labels[:, 1:] != -100).sum(),
               "out.loss": reported(name, model, out), "out.logits": out.logits.detach()}
    if name.endswith("-balance"):
        tensors["out.balance"] = out.aux_loss.detach()
    tensors |= {f"out.hidden.{i}": h.detach() for i, h in enumerate(out.hidden_states)}
    tensors |= {"grad." + n: p.grad.detach().clone() for n, p in model.named_parameters()}
    tensors["step.loss"], tensors["step.norm"] = five_steps(name, model, forward)
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, os.path.join(directory, "golden.safetensors"))


for name in sys.argv[2:] or MODELS:
    write(name, os.path.join(sys.argv[1], name))
