"""Writes variants/: small models of options that the larger goldens do not have, with their exact behaviour.

  python3 tests/golden/make_variants.py DIR [NAME...]      needs torch, transformers and peft; CPU, float32, eager attention

The keys of golden.safetensors are those that README.md lists; inputs of composites are named as the arguments of the
class, but in.x for pictures and sounds. Where `edit` or `rename` makes an older dialect of the files, transformers is
asked whether it reads the same model from them. DIR/adapters/ gets adapters in PEFT's layout over some of them."""
import json
import os
import sys

import peft
import torch
import transformers as T
from safetensors.torch import load_file, save_file

VOCAB = 32
IMAGE, START, END, VIDEO = 31, 30, 29, 28
SHORT = {"input_ids": "ids", "pixel_values": "x", "input_features": "x"}


def text(**more):
    return dict(dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
                     num_key_value_heads=1, max_position_embeddings=64, initializer_range=0.2, rms_norm_eps=1e-6,
                     bos_token_id=1, eos_token_id=2, pad_token_id=0), **more)


def tower(**more):
    return dict(dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                     patch_size=2, initializer_range=0.2), **more)


def qwen_tower(**more):
    return dict(dict(depth=1, num_heads=2, patch_size=2, spatial_merge_size=2, temporal_patch_size=1, in_channels=3,
                     initializer_range=0.2), **more)


def sections(*n):
    return dict(rope_type="default", rope_theta=1e4, mrope_section=list(n))


def words(generator, length, spans, token=IMAGE):
    """One sample; `token` in spans of (first, rows)."""
    ids = torch.randint(3, 27, (1, length), generator=generator)
    for first, n in spans:
        ids[0, first:first + n] = token
    return ids


def labels_of(ids):
    labels = ids.clone()
    labels[ids > 27] = -100
    labels[:, :3] = -100
    return labels


def llm(length):
    return lambda model, g: dict(input_ids=words(g, length, []))


def pictures(length, spans, *shape):
    return lambda model, g: dict(input_ids=words(g, length, spans), pixel_values=torch.randn(*shape, generator=g))


def gemma(model, g):
    given = pictures(24, [(4, 4), (11, 4)], 2, 3, 8, 8)(model, g)
    seen = (given["input_ids"] == IMAGE).long()
    return dict(given, token_type_ids=seen, attention_mask=torch.ones_like(seen))


def mistral(model, g):
    sizes = torch.tensor([[8, 12], [4, 4]])
    return dict(pictures(22, [(4, 6), (12, 1)], 2, 3, 8, 12)(model, g), image_sizes=sizes)


def qwen(frames_apart):
    """A picture of 2 x 4 patches, then a video of two frames of 4 x 2."""
    def make(model, g):
        row = [4, 5, 6, START, IMAGE, IMAGE, END, 7, 8, START, VIDEO, VIDEO]
        row += [END, 9, START, VIDEO, VIDEO, END] if frames_apart else [VIDEO, VIDEO, END]
        ids = torch.tensor([row + [10, 11, 12, 13, 14]])
        given = dict(input_ids=ids, attention_mask=torch.ones_like(ids), image_grid_thw=torch.tensor([[1, 2, 4]]),
                     video_grid_thw=torch.tensor([[2, 4, 2]]), mm_token_type_ids=(ids == IMAGE).int() + 2 * (ids == VIDEO).int())
        grids = {k: v for k, v in given.items() if k not in ("input_ids",)}
        positions, _ = model.model.get_rope_index(ids, **grids)
        given |= dict(pixel_values=torch.randn(8, 12, generator=g), pixel_values_videos=torch.randn(16, 12, generator=g))
        return given, {"in.positions": positions.contiguous()}
    return make


def smol(model, g):
    """Two pictures and one, room for the second of which is empty."""
    ids = torch.cat([words(g, 18, [(4, 4), (9, 4)]), words(g, 18, [(6, 4)])])
    pixels = torch.randn(2, 2, 3, 8, 8, generator=g)
    pixels[1, 1] = 0
    return dict(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=pixels)


def sounds(model, g):
    return dict(input_ids=words(g, 16, [(4, 4)]), input_features=torch.randn(1, 4, 16, generator=g))


def flat(config):
    """As the first files of Qwen2-VL: what is of the text stands in the root, parts have no type."""
    inner = config.pop("text_config")
    rope = inner.pop("rope_parameters")
    for key in ("model_type", "architectures", "dtype", "layer_types"):
        inner.pop(key, None)
    config.update(inner, rope_theta=rope["rope_theta"], rope_scaling=dict(type="mrope", mrope_section=rope["mrope_section"]))
    for key in ("model_type", "rope_parameters"):
        config["vision_config"].pop(key, None)
    config["vision_config"]["in_chans"] = config["vision_config"].pop("in_channels")


def bare(*keys):
    """Without keys that the class has defaults for, and without the types of the parts."""
    def edit(config):
        for key in keys:
            del config[key]
        for part in config.values():
            if isinstance(part, dict):
                part.pop("model_type", None)
    return edit


def older(name):
    for new, old in (("model.language_model.", "model."), ("model.visual.", "visual.")):
        if name.startswith(new):
            return old + name[len(new):]
    return name


VARIANTS = {
    # longer than the model: another base
    "llama-dynamic": dict(cls="LlamaForCausalLM", inputs=llm(20), config=lambda: T.LlamaConfig(**text(
        max_position_embeddings=12, rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, factor=2.0)))),
    # queries that grow, whatever the type of the rotation
    "ministral3": dict(cls="Ministral3ForCausalLM", inputs=llm(20), config=lambda: T.Ministral3Config(**text(
        head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=1e4, llama_4_scaling_beta=0.3,
                                         original_max_position_embeddings=6)))),
    # all layers alike: nothing is said of any
    "gemma4": dict(cls="Gemma4ForCausalLM", inputs=llm(12), config=lambda: T.Gemma4TextConfig(**text(
        head_dim=8, global_head_dim=8, sliding_window=4, hidden_size_per_layer_input=0))),
    # a picture of another size than that of the table of positions
    "dinov2": dict(cls="Dinov2Model", config=lambda: T.Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=2, image_size=8, patch_size=2),
                   inputs=lambda model, g: dict(pixel_values=torch.randn(2, 3, 10, 13, generator=g))),
    # convolutions have their own activation
    "voxtral": dict(cls="VoxtralForConditionalGeneration", inputs=sounds, edit=bare(), config=lambda: T.VoxtralConfig(
        audio_config=dict(hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_mel_bins=4,
                          max_source_positions=8, activation_function="relu", initializer_range=0.2),
        text_config=dict(model_type="llama", **text(head_dim=8)), audio_token_id=IMAGE, projector_hidden_act="silu")),
    # of three matrices the first has no bias
    "mistral3": dict(cls="Mistral3ForConditionalGeneration", inputs=mistral, edit=bare("spatial_merge_size"), config=lambda: T.Mistral3Config(
        text_config=dict(model_type="mistral", **text(sliding_window=None)), vision_config=dict(model_type="pixtral", **tower(image_size=16)),
        image_token_index=IMAGE, spatial_merge_size=2, multimodal_projector_bias=True)),
    # pictures longer than the window; a cap that the whole does without
    "gemma3": dict(cls="Gemma3ForConditionalGeneration", inputs=gemma, edit=bare(), config=lambda: T.Gemma3Config(
        text_config=text(head_dim=8, sliding_window=3, layer_types=["sliding_attention", "full_attention"], final_logit_softcapping=2.0),
        vision_config=dict(model_type="siglip_vision_model", **tower()), mm_tokens_per_image=4, image_token_index=IMAGE,
        boi_token_index=START, eoi_token_index=END)),
    # keys of the text in the root, older names; a picture and a video
    "qwen2-vl": dict(cls="Qwen2VLForConditionalGeneration", inputs=qwen(False), edit=flat, rename=older, config=lambda: T.Qwen2VLConfig(
        text_config=text(rope_parameters=sections(2, 1, 1)), vision_config=qwen_tower(embed_dim=16, hidden_size=16, mlp_ratio=1),
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END)),
    # frames of a video that text lies between
    "qwen3-vl": dict(cls="Qwen3VLForConditionalGeneration", inputs=qwen(True), edit=bare(), config=lambda: T.Qwen3VLConfig(
        text_config=text(head_dim=8, rope_parameters=dict(sections(2, 1, 1), mrope_interleaved=True)),
        vision_config=qwen_tower(hidden_size=16, intermediate_size=8, out_hidden_size=16, num_position_embeddings=9,
                                 deepstack_visual_indexes=[0]),
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END)),
    # samples with unlike numbers of pictures, defaults of the class
    "idefics3": dict(cls="Idefics3ForConditionalGeneration", inputs=smol, edit=bare("scale_factor"), config=lambda: T.Idefics3Config(
        text_config=dict(model_type="llama", **text()), vision_config=tower(), image_token_id=IMAGE, pad_token_id=0)),
}


def prepare(variant, directory):
    torch.manual_seed(0)
    model = getattr(T, variant["cls"])._from_config(variant["config"](), attn_implementation="eager").float().train()
    for p in model.parameters():  # away from neutral values, so that mistakes show
        if p.dim() == 1 or not p.any():
            p.data += 0.1 * torch.randn_like(p)
    model.save_pretrained(directory)
    if os.path.exists(os.path.join(directory, "generation_config.json")):
        os.remove(os.path.join(directory, "generation_config.json"))
    if "edit" in variant:
        path = os.path.join(directory, "config.json")
        config = json.load(open(path))
        variant["edit"](config)
        json.dump(config, open(path, "w"), indent=1, sort_keys=True)
    if "rename" in variant:
        path = os.path.join(directory, "model.safetensors")
        save_file({variant["rename"](k): v for k, v in load_file(path).items()}, path, metadata={"format": "pt"})
    return model


# matrices of recurrent layers beside those of attention; those of a tower beside those of its language model
ADAPTERS = {
    "qwen3.5": dict(of="../models/qwen3.5", cls="Qwen3_5ForCausalLM", layers=["in_proj_qkv", "in_proj_b", "out_proj", "q_proj"]),
    "mistral3": dict(of="mistral3", cls="Mistral3ForConditionalGeneration", layers=["q_proj", "up_proj"]),
}


def read_inputs(path):
    """What the class is given, as a golden has it."""
    long = {"ids": "input_ids", "x": "pixel_values"}
    stored = {k[3:]: v for k, v in load_file(path).items() if k.startswith("in.")}
    return {long.get(k, k): v for k, v in stored.items()}


def train_five(run, model):
    both = [[p for p in model.parameters() if p.requires_grad and (p.dim() >= 2) == is_matrix] for is_matrix in (True, False)]
    optimizer = torch.optim.AdamW([dict(params=both[0], weight_decay=0.1), dict(params=both[1], weight_decay=0.0)],
                                  lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for _ in range(5):
        optimizer.zero_grad()
        loss = run()[0]
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(both[0] + both[1], 1.0)))
        losses.append(float(loss))
        optimizer.step()
    return {"step.loss": torch.tensor(losses), "step.norm": torch.tensor(norms)}


def save(tensors, directory):
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, os.path.join(directory, "golden.safetensors"))


def write(variant, directory):
    model = prepare(variant, directory)
    g = torch.Generator().manual_seed(1)
    given = variant["inputs"](model, g)
    given, keep = given if isinstance(given, tuple) else (given, {})
    if "input_ids" in given:
        labels = labels_of(given["input_ids"])
        keep |= {"in.labels": labels, "out.tokens": (labels[:, 1:] != -100).sum()}
        run = lambda m=model: (lambda o: (o.loss, o.logits))(m(**given, labels=labels, use_cache=False))
        name = "out.logits"
    else:
        keep["in.probe"] = torch.randn(model(**given).last_hidden_state.shape, generator=g)
        run = lambda m=model: (lambda x: ((x * keep["in.probe"]).sum(), x))(m(**given).last_hidden_state)
        name = "out.last"
    keep |= {"in." + SHORT.get(k, k): v for k, v in given.items()}
    loss, keep[name] = run()
    if "edit" in variant:
        again = getattr(T, variant["cls"]).from_pretrained(directory, attn_implementation="eager", dtype=torch.float32)
        assert torch.allclose(run(again.train())[1], keep[name], atol=1e-5), "transformers reads another model"
    loss.backward()
    keep["out.loss"] = loss
    keep |= {"grad." + n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    save(keep | train_five(run, model), directory)


def adapt(adapter, directory, base):
    torch.manual_seed(0)
    given = read_inputs(os.path.join(base, "golden.safetensors"))
    model = getattr(T, adapter["cls"]).from_pretrained(base, attn_implementation="eager", dtype=torch.float32)
    config = peft.LoraConfig(r=2, lora_alpha=3, lora_dropout=0.0, target_modules=adapter["layers"])
    model = peft.get_peft_model(model, config).train()
    for p in model.parameters():
        if p.requires_grad:
            p.data = 0.1 * torch.randn_like(p)
    config.base_model_name_or_path = adapter["of"]
    model.save_pretrained(os.path.join(directory, "adapter"))
    os.remove(os.path.join(directory, "adapter", "README.md"))
    run = lambda: (lambda o: (o.loss, o.logits))(model(**given, use_cache=False))
    loss, logits = run()
    loss.backward()
    keep = {"in." + SHORT.get(k, k): v for k, v in given.items()} | {"out.loss": loss, "out.logits": logits}
    keep |= {"grad." + n.replace("base_model.model.", "").replace(".default", ""): p.grad.clone()
             for n, p in model.named_parameters() if p.requires_grad}
    save(keep | train_five(run, model), directory)


names = sys.argv[2:] or list(VARIANTS) + ["adapters"]
for name in names:
    if name != "adapters":
        write(VARIANTS[name], os.path.join(sys.argv[1], name))
for name in ADAPTERS if "adapters" in names else []:
    adapt(ADAPTERS[name], os.path.join(sys.argv[1], "adapters", name), os.path.join(sys.argv[1], ADAPTERS[name]["of"]))
