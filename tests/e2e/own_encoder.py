"""Goldens of towers as encoders of our own description: own_encoder.py GOLDEN_MODELS OUT NAME

Writes OUT/NAME: the golden of that name (siglip, clip, vit, dinov2, pixtral) with a config.json of cornstarch_vision that says the
same, its tensors under the names that such an encoder has. Values are left as they are.
"""
import json, os, re, struct, sys

SAME = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim", "image_size", "patch_size", "hidden_act")
VIT = [
    (r"encoder\.layer\.", "encoder.layers."), (r"^layers\.", "encoder.layers."),
    (r"embeddings\.cls_token", "embeddings.class_embedding"), (r"embeddings\.patch_embeddings\.projection", "embeddings.patch_embedding"),
    (r"embeddings\.position_embeddings", "embeddings.position_embedding.weight"),
    (r"attention\.attention\.(query|key|value)", lambda m: f"self_attn.{m[1][0]}_proj"), (r"attention\.output\.dense", "self_attn.out_proj"),
    (r"attention\.([qkv])_proj", r"self_attn.\1_proj"), (r"attention\.o_proj", "self_attn.out_proj"),
    (r"intermediate\.dense", "mlp.fc1"), (r"(layers\.\d+)\.output\.dense", r"\1.mlp.fc2"),
    (r"layernorm_before|norm1", "layer_norm1"), (r"layernorm_after|norm2", "layer_norm2"), (r"^layernorm", "post_layernorm"),
]
PIXTRAL = [
    (r"patch_conv", "embeddings.patch_embedding"), (r"ln_pre", "pre_layrnorm"), (r"transformer\.layers", "encoder.layers"),
    (r"attention\.([qkv])_proj", r"self_attn.\1_proj"), (r"attention\.o_proj", "self_attn.out_proj"),
    (r"attention_norm", "layer_norm1"), (r"ffn_norm", "layer_norm2"), (r"feed_forward", "mlp"),
]
NO_BIAS = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias", "patch_bias"), False)
# settings beside those that have the same key; new names; tensors that no projector is given anything of
MODELS = {
    "siglip": ({}, [], "head."),
    "clip": ({"class_row": True, "pre_norm": True, "patch_bias": False, "final_norm": False}, [], "post_layernorm."),
    "vit": ({"class_row": True}, VIT, "pooler."),
    "dinov2": ({"class_row": True, "positions": "bicubic", "layer_scale": True, "intermediate_size": 96}, VIT, "embeddings.mask_token"),
    "pixtral": (NO_BIAS | {"norm_type": "rms_norm", "norm_eps": 1e-5, "gated_mlp": True, "positions": "none", "rope_theta": 10000.0,
                           "pre_norm": True, "final_norm": False}, PIXTRAL, "nothing"),
}
# of vectors and tables that a model keeps with more dimensions
FLAT = {"embeddings.class_embedding": 1, "embeddings.position_embedding.weight": 2}


def renamed(name, rules):
    head, _, rest = name.partition("grad.") if name.startswith("grad.") else ("", "", name)
    for pattern, new in rules:
        rest = re.sub(pattern, new, rest)
    return ("grad." if name.startswith("grad.") else "") + rest


def rewrite(source, out, rules, dropped):
    raw = open(source, "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    header, data, new, at = json.loads(raw[8:8 + n]), raw[8 + n:], {}, 0
    kept = []
    for name, about in header.items():
        if name == "__metadata__" or name.removeprefix("grad.").startswith(dropped):
            continue
        begin, end = about["data_offsets"]
        key = renamed(name, rules)
        dims = FLAT.get(key.removeprefix("grad."), len(about["shape"]))
        new[key] = about | {"shape": about["shape"][len(about["shape"]) - dims:], "data_offsets": [at, at + end - begin]}
        kept.append(data[begin:end])
        at += end - begin
    head = json.dumps(new).encode()
    head += b" " * (-len(head) % 8)
    open(out, "wb").write(struct.pack("<Q", len(head)) + head + b"".join(kept))


def main(models, out, name):
    settings, rules, dropped = MODELS[name]
    config = json.load(open(f"{models}/{name}/config.json"))
    own = {"model_type": "cornstarch_vision"} | {k: config[k] for k in SAME if k in config}
    if "layer_norm_eps" in config:
        own["norm_eps"] = config["layer_norm_eps"]
    os.makedirs(f"{out}/{name}")
    json.dump(own | settings, open(f"{out}/{name}/config.json", "w"))
    for file in ("model", "golden"):
        rewrite(f"{models}/{name}/{file}.safetensors", f"{out}/{name}/{file}.safetensors", rules, dropped)


if __name__ == "__main__":
    main(*sys.argv[1:])
