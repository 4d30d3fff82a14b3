#!/usr/bin/env python3
"""Writes configs.json: what the classes of transformers make of configurations of language models, among them
empty ones, and old and new spellings.

  python3 tests/golden/make_configs.py > tests/golden/configs.json       needs torch and transformers

A case: the configuration, and of what the class makes of it the numbers under the names of its keys, for every
layer the window (0: none), head_dim, num_key_value_heads and which of `ropes` turns it: inverse frequencies
and the factor of cosine and sine."""
import importlib
import json
import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0}
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
         "max_position_embeddings": 128}
HALF = [1.0 + 0.25 * i for i in range(8)]


def case(kind, **keys):
    return dict(model_type=kind, **keys)


CASES = [
    *(case(k) for k in ("llama", "mistral", "ministral3", "qwen2", "qwen3", "qwen2_vl_text", "qwen2_5_vl_text",
                        "qwen3_vl_text", "gemma", "gemma2", "gemma3_text", "phi3")),
    case("gemma4_text", hidden_size_per_layer_input=0),
    case("llama", **SMALL, rope_theta=5e5, rope_scaling=dict(LLAMA3, original_max_position_embeddings=32)),
    case("llama", **SMALL, rope_parameters=dict(LLAMA3, rope_theta=5e5, original_max_position_embeddings=32)),
    case("llama", **SMALL, rope_scaling={"type": "linear", "factor": 2.0}, rope_theta=7777.0),
    case("llama", **SMALL, rope_parameters=dict(YARN, rope_theta=5e4, original_max_position_embeddings=32)),
    case("llama", **SMALL, rope_scaling=dict(YARN, original_max_position_embeddings=32, beta_fast=16, beta_slow=2)),
    case("llama", **SMALL, rope_scaling=dict(YARN, original_max_position_embeddings=32, attention_factor=0.75)),
    case("llama", **SMALL, rope_scaling=dict(YARN, original_max_position_embeddings=32, mscale=0.7,
                                             mscale_all_dim=1.3, truncate=False)),
    case("llama", **SMALL, head_dim=24, attention_bias=True, mlp_bias=True,
         tie_word_embeddings=True, hidden_act="gelu"),
    case("mistral", **SMALL, sliding_window=None, head_dim=8),
    case("mistral", **SMALL, sliding_window=6, rope_theta=1e6),
    case("ministral3", **SMALL, head_dim=16, rope_parameters=dict(
        YARN, rope_theta=1e6, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=1.0,
        llama_4_scaling_beta=0.25)),
    case("qwen2", **SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    case("qwen2_vl_text", **SMALL,
         rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}, rope_theta=2e5),
    case("qwen3_vl_text", **SMALL, head_dim=16, rope_theta=3e6, rope_scaling={
        "rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}),
    case("gemma", **SMALL, head_dim=8, hidden_act="gelu", attention_bias=True),
    case("gemma2", **SMALL, layer_types=["full_attention", "sliding_attention", "full_attention"], sliding_window=9,
         query_pre_attn_scalar=20, attn_logit_softcapping=None, final_logit_softcapping=None),
    case("gemma3_text", **SMALL, sliding_window_pattern=2, sliding_window=9, rope_theta=5e5,
         rope_local_base_freq=2e4, rope_scaling={"rope_type": "linear", "factor": 8.0}),
    case("gemma3_text", **SMALL, rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 3e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}}),
    case("gemma4_text", **SMALL, hidden_size_per_layer_input=0, attention_k_eq_v=True, head_dim=16,
         global_head_dim=32, num_global_key_value_heads=1),
    case("gemma4_text", **SMALL, hidden_size_per_layer_input=0, head_dim=16, num_global_key_value_heads=1),
    case("gemma4_text", **SMALL, hidden_size_per_layer_input=0, head_dim=16, attention_k_eq_v=True,
         layer_types=["full_attention", "sliding_attention", "full_attention"],
         per_layer_config={"0": {"head_dim": 24}, "2": {"head_dim": 24}},
         rope_parameters={"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5,
                                             "rope_theta": 2e6},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}),
    case("phi3", **SMALL, partial_rotary_factor=0.75, rope_theta=2e4, sliding_window=7),
    case("phi3", **SMALL, original_max_position_embeddings=32, rope_scaling={
        "type": "su", "original_max_position_embeddings": 32, "short_factor": HALF, "long_factor": HALF[::-1]}),
    case("phi3", **SMALL, original_max_position_embeddings=32, rope_scaling={
        "type": "yarn", "short_factor": HALF, "long_factor": HALF[::-1], "attention_factor": 1.5}),
    case("phi3", **SMALL, original_max_position_embeddings=64, rope_parameters={
        "rope_type": "longrope", "rope_theta": 3e4, "partial_rotary_factor": 0.5, "factor": 2.0,
        "short_factor": HALF[:4], "long_factor": HALF[4:]}),
]
KEYS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
        "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "initializer_range",
        "final_logit_softcapping", "attn_logit_softcapping")


def rotary(config):
    name = {"gemma3_text": "gemma3", "gemma4_text": "gemma4", "qwen2_vl_text": "qwen2_vl", "qwen3_vl_text": "qwen3_vl",
            "qwen2_5_vl_text": "qwen2_5_vl"}.get(config.model_type, config.model_type)
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    found = [c for n, c in vars(module).items()
             if n.endswith("RotaryEmbedding") and "Vision" not in n and c.__module__ == module.__name__]
    assert len(found) == 1, found
    return found[0](config)


def layers(config):
    embedding = rotary(config)
    types = getattr(config, "layer_types", None) or ["all"] * config.num_hidden_layers
    window = getattr(config, "sliding_window", None) or 0
    every = config.model_type in ("mistral", "ministral3", "phi3")
    ropes, out = {}, []
    for i, kind in enumerate(types):
        own = config.per_layer_config[i] if config.model_type == "gemma4_text" else config
        prefix = kind + "_" if hasattr(embedding, kind + "_inv_freq") else ""
        rope = {"inv_freq": [float(f"{float(x):.8g}") for x in getattr(embedding, prefix + "inv_freq")],
                "scaling": getattr(embedding, prefix + "attention_scaling")}
        ropes.setdefault(json.dumps(rope), len(ropes))
        out.append({"window": window if every or kind == "sliding_attention" else 0, "rope": ropes[json.dumps(rope)],
                    "head_dim": getattr(own, "head_dim", None) or config.hidden_size // config.num_attention_heads,
                    "num_key_value_heads": own.num_key_value_heads})
    return [json.loads(r) for r in ropes], out


cases = []
for raw in CASES:
    config = CONFIG_MAPPING[raw["model_type"]].from_dict(json.loads(json.dumps(raw)))
    ropes, by_layer = layers(config)
    want = {k: getattr(config, k) for k in KEYS if getattr(config, k, None) is not None}
    cases.append({"config": raw, "want": want, "ropes": ropes, "layers": by_layer})
print("[")
print(",\n".join(json.dumps(c) for c in cases))
print("]")
