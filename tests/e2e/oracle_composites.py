"""oracle_composites.py CONSOLE MEDIA DIR [FAMILY...]: whole jobs as users run them, beside transformers.

For every family of composites.py: a tiny model directory, conversations with pictures, videos or sounds of MEDIA
(shared/golden/processors and tests/golden/media), a job script, and cornstarch-console data check, inspect and run with
--export. transformers makes of the same files with its own processors the same ids (each one), the same loss of
every step, and loads what was exported without a key too many or too few, to the same loss."""
import copy
import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
import transformers as T
from PIL import Image, ImageOps

import composites

warnings.filterwarnings("ignore")
T.logging.set_verbosity_error()
T.logging.disable_progress_bar()
torch.set_num_threads(1)
CONSOLE, MEDIA, DIR = sys.argv[1:4]
LATER = {"qwen3_5": 3e-3, "gemma4": 5e-4}  # what rounding becomes in their gradients: 4e-4 of the delta rule's
WANTED = os.environ.get("LAYOUTS", "one").split(",")
STEPS, LR, EPS = 3, 2e-3, 1e-5  # a larger eps: of gradients that are noise AdamW would make whole steps


# --- the data set

def t(text):
    return {"type": "text", "text": text}


def of(kind, name, **more):
    return {"type": kind, kind: name, **more}


def turns(*contents):
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": c if isinstance(c, list) else [t(c)]} for i, c in enumerate(contents)]}


def image(name):
    return of("image", "images/" + name)


def conversations(kinds):
    out = [turns("how are you?", "as ever")]
    if "i" in kinds:
        out += [turns([image("rgb0_70x45.png"), t("what is in this picture?")], "a red square"),
                turns([image("rgb1_31x97.png"), image("rgb2_56x56.png"), t("compare")], "the second one is round"),
                turns([image("exif6.jpg"), t("and?")], "a blue circle", "more?", "no"),
                turns([image("gray.png"), t("what is it")], "gray", [image("palette.png"), t("and this")], "not gray"),
                turns([image("rgb5_203x50.png"), t("how wide?")], "very"),
                turns([image("rgba.png"), t("see through?")], "in part")]
    if "v" in kinds:
        frames = [f"images/{n}" for n in ("rgb2_56x56.png", "same.png", "rgb2_56x56.png", "same.png")]
        out += [turns([of("video", "media/h264.mp4"), t("what moves?")], "the camera moves from left to right"),
                turns([of("video", frames), t("which?")], "both")]
    if "a" in kinds:
        out += [turns([of("audio", "audio/tone.wav"), t("how does it sound?")], "low"),
                turns([of("audio", "audio/sweep.wav"), of("audio", "media/mono.flac"), t("which is louder?")], "the first"),
                turns([of("audio", "media/stereo.mp3"), t("and?")], "it rises", [of("audio", "audio/noise.wav"), t("this?")], "noise")]
    return out


def put_media(folder):
    os.makedirs(folder, exist_ok=True)
    for name, target in (("images", "processors/images"), ("audio", "processors/audio")):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        for file in os.listdir(f"{MEDIA}/{target}"):
            data = open(f"{MEDIA}/{target}/{file}", "rb").read()
            open(f"{folder}/{name}/{file}", "wb").write(data)
    Image.open(f"{folder}/images/rgb2_56x56.png").transpose(Image.ROTATE_90).save(f"{folder}/images/same.png")
    os.makedirs(f"{folder}/media", exist_ok=True)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/media")
    for file in os.listdir(here):
        open(f"{folder}/media/{file}", "wb").write(open(f"{here}/{file}", "rb").read())


# --- what transformers makes of it

def picture(path):
    return ImageOps.exif_transpose(Image.open(path)).convert("RGB")


def film(what):
    """Frames and what is known of them: a file by PyAV, a list without a rate."""
    if isinstance(what, list):
        return np.stack([np.asarray(picture(p)) for p in what]), None
    import av
    with av.open(what) as c:
        stream = c.streams.video[0]
        frames = np.stack([f.to_ndarray(format="rgb24") for f in c.decode(stream)])
        fps = float(stream.average_rate)
    return frames, {"total_num_frames": len(frames), "fps": fps, "duration": len(frames) / fps, "width": frames.shape[2], "height": frames.shape[1]}


def sound(path, rate=16000):
    import soundfile
    import soxr
    x, has = soundfile.read(path, dtype="float32", always_2d=True)
    x = x.mean(axis=1) if x.shape[1] > 1 else x[:, 0]
    return soxr.resample(x, has, rate, quality="HQ") if has != rate else x


def all_media(sample, kind):
    return [c[kind] for m in sample["messages"] for c in m["content"] if c["type"] == kind]


def voxtral_inputs(processor, text, sounds):
    """What VoxtralProcessor does with mistral-common's ids: rows of each sound, chunks one behind the other."""
    p = processor.feature_extractor
    chunk, rows = p.n_samples, p.nb_max_frames // 8
    for x in sounds:
        text = text.replace("[AUDIO]", "[ROWS]" * (rows * -(-len(x) // chunk)), 1)
    ids = processor.tokenizer(text.replace("[ROWS]", "[AUDIO]"), return_tensors="pt", add_special_tokens=False)
    if sounds:
        ids["input_features"] = processor._retrieve_input_features(sounds, p.nb_max_frames, sampling_rate=16000, padding=True, truncation=False,
                                                                  pad_to_multiple_of=chunk, return_tensors="pt")
    return ids


def inputs_of(processor, sample, family, video):
    messages = sample["messages"]
    if isinstance(processor, T.VoxtralProcessor):
        text = T.utils.chat_template_utils.render_jinja_template(
            conversations=[messages], chat_template=processor.tokenizer.chat_template, bos_token="<s>", eos_token="</s>")[0][0]
        return voxtral_inputs(processor, text, [sound(a) for a in all_media(sample, "audio")])
    text = processor.apply_chat_template(messages, tokenize=False)
    kw = {"text": [text], "return_tensors": "pt"}
    pictures = [picture(p) for p in all_media(sample, "image")]
    films = [film(v) for v in all_media(sample, "video")]
    sounds = [sound(a) for a in all_media(sample, "audio")]
    if pictures:
        kw["images"] = [pictures]
    if sounds:
        kw["audio"] = sounds
        kw["sampling_rate"] = 16000
    if films:
        kw["videos"] = [[f for f, _ in films]] if family == "smolvlm" else [f for f, _ in films]
        if films[0][1] is None:
            kw["do_sample_frames"] = False
        else:
            meta = [m for _, m in films]
            kw["video_metadata"] = [meta] if family == "smolvlm" else meta
            kw |= video
    bos = processor.tokenizer.bos_token
    if bos is not None and text.startswith(bos):
        kw["add_special_tokens"] = False
    return dict(processor(**kw))


class Oracle:
    def __init__(self, family, folder, samples, labels):
        self.processor = T.AutoProcessor.from_pretrained(folder)
        if hasattr(self.processor, "image_processor"):  # as Pillow resizes, which is the reference
            self.processor.image_processor = T.AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.samples, self.labels, self.family = samples, labels, family
        self.inputs = None

    def make_inputs(self, video):
        self.inputs = [inputs_of(self.processor, s, self.family, video) for s in self.samples]
        # rows of videos have a token of their own there, which no model looks at: theirs are the pictures' here
        ids = {k: getattr(self.processor, k, None) for k in ("video_token_id", "image_token_id")}
        return [[ids["image_token_id"] if i == ids["video_token_id"] else i for i in x["input_ids"][0].tolist()] for x in self.inputs]

    def loss(self, model, backward=False):
        n = sum(int((l >= 0).sum()) for l in self.labels)
        total = 0.0
        for x, l in zip(self.inputs, self.labels):
            kw = {k: v for k, v in x.items() if k not in ("num_crops", "num_patches", "rows", "cols", "num_soft_tokens_per_image", "second_per_grid_ts_", "video_metadata")}
            logits = model(**kw, use_cache=False).logits[0].float()
            one = torch.nn.functional.cross_entropy(logits, l, ignore_index=-1, reduction="sum") / n
            if backward:
                one.backward()
            total += float(one.detach())
        return total


def load(family, folder):
    cls = getattr(T, composites.FAMILIES[family][0])
    model, info = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    bad = {k: sorted(v) for k, v in info.items() if v and k != "error_msgs"}
    return model, bad


def is_tower(name):
    return any(w in name for w in ("vision_tower.", "visual.", "vision_model.", "audio_tower.")) and "visual.merger." not in name


def train(oracle, model, is_frozen):
    for name, p in model.named_parameters():  # loading makes what the class holds fixed trainable again
        if "audio_tower.embed_positions" in name or (is_frozen and is_tower(name)):
            p.requires_grad_(False)
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, betas=(0.9, 0.95), eps=EPS, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        opt.zero_grad()
        losses.append(oracle.loss(model, backward=True))
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
        opt.step()
    return losses


# --- ours

SCRIPT = """local cs = require "cornstarch"
local model = cs.mllm { from = "%(dir)s"%(video)s }%(train)s
return cs.job {
  plan = cs.plan { model = model, parallel = { %(branch)s = { pp = 1 }, llm = { pp = %(pp)d } }, seq_tokens = 2048, slots = 2, dp = %(dp)d },
  data = cs.data.llava { json = "%(json)s", images = "." },
  optimizer = cs.optim.adamw { lr = %(lr)g, betas = { 0.9, 0.95 }, eps = 1e-5 },
  batch_samples = %(n)d, steps = %(steps)d, seed = 1,
}
"""


def ours(*args):
    r = subprocess.run([CONSOLE, *args], capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError(f"{' '.join(args[:2])}: exit {r.returncode}: {(r.stdout + r.stderr)[-1500:]}")
    return r.stdout


def near(what, got, want, relative=1e-4):
    if not abs(got - want) <= relative * abs(want):
        raise RuntimeError(f"{what}: {got!r}, transformers {want!r}")


# name: what trains, stages of the language model, replicas, whether the tower is frozen
LAYOUTS = {
    "one": (':train("*")', 1, 1, False),
    "stages": (':train("*")', 2, 1, False),
    "replicas": (':train("*")', 1, 2, False),
    "frozen": (':train("*"):freeze("*.encoder")', 2, 1, True),
}


def prepare(family):
    """The directory, the samples and the values of the script."""
    folder = f"models/{family}"
    _, _, kinds, video = composites.make(family, folder)
    samples = conversations(kinds)
    with open(f"{family}.jsonl", "w") as f:
        f.writelines(json.dumps(s) + "\n" for s in samples)
    return samples, {"dir": folder, "video": f", video = {video}" if video else "", "branch": "audio" if "a" in kinds else "vision",
                     "json": f"{family}.jsonl", "n": len(samples), "lr": LR, "steps": STEPS, "pp": 1, "dp": 1, "train": ':train("*")'}


def write(family, values):
    with open(f"{family}.lua", "w") as f:
        f.write(SCRIPT % values)
    return f"{family}.lua"


def compare_ids(oracle, want, seen):
    for i, (a, b) in enumerate(zip(want, (s["ids"] for s in seen), strict=True)):
        if a != b:
            at = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            theirs, mine = (oracle.processor.tokenizer.decode(x[max(0, at - 12):at + 12]) for x in (a, b))
            raise RuntimeError(f"sample {i}: {len(b)} ids, transformers {len(a)}, first other at {at}:\n  ours   {mine!r}\n  theirs {theirs!r}")


def run_layout(family, values, layout, oracle):
    how, pp, dp, is_frozen = LAYOUTS[layout]
    relative = LATER.get(family, 1e-4)
    model, _ = load(family, values["dir"])
    want = train(oracle, model, is_frozen)
    after = oracle.loss(model)
    out = f"out/{family}-{layout}"
    ours("run", "--plain", write(family, values | {"pp": pp, "dp": dp, "train": how}), "--export", out)
    told = json.loads(ours("metrics", "latest", "--json"))
    got = [row[told["columns"].index("loss")] for row in told["rows"]]
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        near(f"{layout}: loss of step {k}", a, b, relative if k > 0 else 1e-4)
    back, bad = load(family, f"{out}/{family}")
    if bad:
        raise RuntimeError(f"{layout}: export: {bad}")
    near(f"{layout}: loss of the export", oracle.loss(back), after, relative)
    return f"{layout} {' '.join('%.5f' % x for x in want)} -> {after:.5f}"


def run_lora(family, values, oracle):
    """The adapter beside the base with the trained projector equals the merged whole, and that the job one step on."""
    from peft import PeftModel
    how = ':train("*.projector"):lora { module = "llm", rank = 4, alpha = 8, targets = "q_proj|v_proj|down_proj" }'
    losses = []
    for steps in (STEPS, STEPS + 1):
        out = f"out/{family}-lora-{steps}"
        ours("run", "--plain", write(family, values | {"pp": 2, "train": how, "steps": steps}), "--export", out)
        told = json.loads(ours("metrics", "latest", "--json"))
        losses.append([row[told["columns"].index("loss")] for row in told["rows"]])
    base, _ = load(family, values["dir"])
    near("lora: loss of step 0", losses[0][0], oracle.loss(base))
    merged, bad = load(family, f"out/{family}-lora-{STEPS}/{family}")
    if bad:
        raise RuntimeError(f"lora: export: {bad}")
    near("lora: loss of the merged export", oracle.loss(merged), losses[1][-1], LATER.get(family, 1e-4))
    theirs = dict(merged.named_parameters())
    for name, p in base.named_parameters():
        if "language_model" not in name and "text_model" not in name and "lm_head" not in name:
            p.data = theirs[name].data
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of keys that are missing
        joined = PeftModel.from_pretrained(base, f"out/{family}-lora-{STEPS}/llm.adapter")
    near("lora: loss of base and adapter", oracle.loss(joined), losses[1][-1], LATER.get(family, 1e-4))
    return f"lora {' '.join('%.5f' % x for x in losses[1])}"


def run(family):
    samples, values = prepare(family)
    script = write(family, values)
    ours("model", "check", values["dir"])
    check = json.loads(ours("data", "check", script, "--json"))["sets"][0]
    if check["bad"]:
        raise RuntimeError(f"data check: {check}")
    seen = [json.loads(ours("inspect", script, "--sample", str(i), "--json")) for i in range(len(samples))]
    oracle = Oracle(family, values["dir"], samples, [torch.tensor(s["labels"]) for s in seen])
    said = {"num_frames": 3, "do_sample_frames": True} if "num_frames" in values["video"] else {}
    ids = oracle.make_inputs(said)
    compare_ids(oracle, ids, seen)
    lines = [run_layout(family, values, layout, oracle) for layout in LAYOUTS if layout in WANTED]
    if "lora" in WANTED:
        lines.append(run_lora(family, values, oracle))
    return f"{len(samples)} samples, {sum(map(len, ids))} rows; {'; '.join(lines)}"


def main():
    os.makedirs(DIR, exist_ok=True)
    os.chdir(DIR)
    put_media(".")
    failed = 0
    for family in sys.argv[4:] or composites.FAMILIES:
        try:
            began = time.time()
            print(f"{family}: {run(family)} ({time.time() - began:.1f} s)", flush=True)
        except Exception as e:  # every family is tried
            failed += 1
            if os.environ.get("TRACE"):
                import traceback
                traceback.print_exc(limit=-4)
            print(f"FAILED {family}: {type(e).__name__}: {e}", flush=True)
    return failed > 0


sys.exit(main())
