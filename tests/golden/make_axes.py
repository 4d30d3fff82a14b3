"""Writes axes.json: places of rows on three axes, as transformers' get_rope_index has them.

  python3 make_axes.py > axes.json        needs transformers, torch

A case: merge, time_step, pieces in order (a number: so many rows of text; a list: the grid of a picture, or of a video, in
patches), pos: three lists of all rows."""
import json, random
import torch
import transformers as T

random.seed(7)
IMG, VID = 90, 91
vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=1, out_hidden_size=16, patch_size=4)
text = dict(vocab_size=99, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, head_dim=16)


def model(name, merge, **more):
    config = getattr(T, name + "Config")(text_config=dict(text, rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 3, 3])),
                                         vision_config=dict(vision, spatial_merge_size=merge, **more), image_token_id=IMG, video_token_id=VID)
    return getattr(T, name + "Model")._from_config(config)


def case(name, merge, kind, step):
    m = model(name, merge, **({"tokens_per_second": step} if name == "Qwen2_5_VL" else {}))
    pieces, kinds = [], []
    for _ in range(random.randint(1, 4)):
        pieces.append(random.randint(1, 6))
        frames = random.randint(1, 3) if kind == "video" and name == "Qwen2_5_VL" else 1
        pieces.append([frames, merge * random.randint(1, 4), merge * random.randint(1, 4)])
    pieces.append(random.randint(1, 5))
    ids, types, grids = [], [], []
    for p in pieces:
        n = p if isinstance(p, int) else p[0] * p[1] * p[2] // merge ** 2
        media = 0 if isinstance(p, int) else 1 if kind == "image" else 2
        ids += [5 if media == 0 else IMG if media == 1 else VID] * n
        types += [media] * n
        if media:
            grids.append(p)
    more = {"image_grid_thw" if kind == "image" else "video_grid_thw": torch.tensor(grids)}
    if name == "Qwen2_5_VL" and kind == "video":
        more["second_per_grid_ts"] = torch.ones(len(grids))
    pos, _ = m.get_rope_index(torch.tensor([ids]), torch.tensor([types]), **more)
    scaled = step if name == "Qwen2_5_VL" and kind == "video" else 1
    return dict(model=name, merge=merge, time_step=scaled, pieces=pieces, pos=pos[:, 0].tolist())


cases = []
for i in range(8):
    cases.append(case("Qwen3VL", 2, "image", 1))
    cases.append(case("Qwen3VL", 2, "video", 1))
    cases.append(case("Qwen2_5_VL", 2, "image", 4))
    cases.append(case("Qwen2_5_VL", 2, "video", random.choice([1, 2, 4])))
    cases.append(case("Qwen2VL", random.choice([1, 2]), "image", 1))
print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
