"""What is exported loads in transformers and computes the same.

  loads.py WORKER OUT DIR...      DIR: a golden directory (config.json, model.safetensors, golden.safetensors)
  loads.py WORKER OUT --adapter ADAPTER DIR      ADAPTER: a golden of an adapter (adapter/, golden.safetensors) of that model

Each model is trained for five steps and exported; the exported directory must load without missing or unexpected tensors, its
logits (of a tower: its last rows) on the golden's input must be ours, and the files of tokenizer and processors must be there
byte for byte. So must what `model convert` makes of it: other names, experts one by one or fused, shards, bfloat16. Of an
adapter both are tried: merged, and as PEFT's over the model that it was trained beside.
"""
import importlib, json, os, pkgutil, re, shutil, subprocess, sys, torch, transformers
from safetensors.torch import load_file

PARTS = ("vision", "audio", "projector", "llm")
# made up: nothing of it is run, all of it must arrive as it is
FILES = {
    "tokenizer_config.json": '{"model_max_length":  77}\n',
    "special_tokens_map.json": '{ "eos_token": "</s>"}',
    "chat_template.jinja": "{{ messages }}\r\n",
    "generation_config.json": '{"max_length":  9}',
    "vocab.json": '{"a": 0}',
    "merges.txt": "#version: 0.2\n",
}
PROCESSORS = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
# recurrent layers: transformers' own fp32 and fp64 differ by more than others
LIMIT = {"qwen3.5": 5e-4, "qwen3.5-text": 5e-4}


def with_files(source, out):
    """The golden with a tokenizer and what else lies beside weights."""
    shutil.copytree(source, out)
    config = json.load(open(f"{source}/config.json"))
    token = config.get("image_token_id", config.get("image_token_index", 1))
    files = dict(FILES, **{"tokenizer.json": json.dumps({"added_tokens": [{"id": token, "content": "<image>"}], "model": {"vocab": {}}})})
    if "vision_config" in config or "audio_config" in config or "image_size" in config or "num_mel_bins" in config:
        files |= {PROCESSORS[0]: '{"do_resize":  true}', PROCESSORS[2]: '{"fps": 2}\n'}
    for name, text in files.items():
        open(f"{out}/{name}", "w", newline="").write(text)
    return sorted(files)


def export(worker, source, out, adapter=None):
    request = {"dir": source, "device": "cpu:0", "written": out} | ({"adapter": adapter} if adapter else {})
    r = subprocess.run([worker, "--selftest"], input=json.dumps(request), capture_output=True, text=True)
    assert r.returncode == 0, r.stderr


def folder_of(out, source):
    """The directory that is the source again: the whole model where there is one, else the part that the source is."""
    names = [n for n in sorted(os.listdir(out)) if os.path.isdir(f"{out}/{n}") and not n.endswith(".adapter")]
    whole = [n for n in names if n not in PARTS]
    if whole:
        return f"{out}/{whole[0]}"
    want = json.load(open(f"{source}/config.json"))["model_type"]
    for n in names:
        if json.load(open(f"{out}/{n}/config.json")).get("model_type") == want:
            return f"{out}/{n}"
    raise AssertionError(f"none of {names} is a {want}")


def class_of(path, source):
    """Of the architecture that the directory names: a class of the package, else one of its models alone (towers)."""
    config = json.load(open(f"{path}/config.json"))
    name = (config.get("architectures") or json.load(open(f"{source}/config.json"))["architectures"])[0]
    if hasattr(transformers, name):
        return getattr(transformers, name)
    family = transformers.models.auto.configuration_auto.model_type_to_module_name(config["model_type"])
    names = [family] + [m.name for m in pkgutil.iter_modules(transformers.models.__path__) if family.startswith(m.name)]
    for n in names:
        for kind in (f".modeling_{n}",):
            try:
                return getattr(importlib.import_module(f"transformers.models.{n}{kind}"), name)
            except (ImportError, AttributeError):
                continue
    raise AssertionError(f"transformers has no {name}")


def load(path, source):
    cls = class_of(path, source)
    model, info = cls.from_pretrained(path, output_loading_info=True, attn_implementation="eager", dtype=torch.float32)
    bad = {k: sorted(map(str, v))[:4] for k, v in info.items() if v}
    # an encoder out of the middle of a class: the golden's config describes the decoder too
    assert not bad, f"{cls.__name__}: {bad}"
    return model.eval()


NAMES = {"ids": "input_ids", "grid": "grid_thw", "shapes": "spatial_shapes", "mask": "pixel_attention_mask", "sizes": "image_sizes"}


def run(model, golden):
    given = {k[3:]: v for k, v in golden.items() if k.startswith("in.")}
    kw = {NAMES.get(k, k): v for k, v in given.items() if k not in ("labels", "probe", "positions", "x", "hidden")}
    if "x" in given:
        is_sound = bool(re.search("audio|voxtral", model.config.model_type))
        kw["input_features" if "ids" in given and is_sound else "pixel_values" if "ids" in given else "hidden_states" if "grid" in given else model.main_input_name] = given["x"]
    with torch.no_grad():
        return model(**kw)


def compared(model, golden, got):
    """What is compared of both: ours, theirs."""
    if "last" in got:
        theirs = run(model, golden)
        theirs = theirs if torch.is_tensor(theirs) else theirs.last_hidden_state if "pooler_output" not in theirs or golden["in.probe"].shape == theirs.last_hidden_state.shape else theirs.pooler_output
        probe = golden["in.probe"].reshape(-1, golden["in.probe"].shape[-1])
        keep = probe.abs().sum(-1) > 0
        ours, theirs = got["last"][keep], theirs.reshape(probe.shape)[keep]
    else:
        logits = run(model, golden).logits
        ours, theirs = got["logits"], logits.reshape(-1, logits.shape[-1])[got["rows"].long()]
    assert torch.isfinite(ours).all() and torch.isfinite(theirs).all(), "values that are no numbers"
    return ours, theirs


def deviation_of(model, golden, got):
    ours, theirs = compared(model, golden, got)
    return float((ours - theirs).abs().max()) / max(1.0, 0.1 * float(theirs.abs().max()))


def angle_of(model, golden, got):
    """1 - cosine: where weights are rounded, single values move far."""
    return 1 - float(torch.nn.functional.cosine_similarity(*(x.flatten().double() for x in compared(model, golden, got)), 0))


def conversions(config):
    """Arguments of `model convert` that change such a directory."""
    yield ["--shard", "50000"]
    yield ["--dtype", "bfloat16"]
    if "text_config" in config:
        yield from (["--names", names] for names in ("saved", "nested", "v4"))
    if config["model_type"] in ("qwen3_moe", "mixtral"):
        yield from (["--experts", experts] for experts in ("each", "fused"))


def check_conversions(worker, path, source, golden, got):
    done = []
    console = os.path.join(os.path.dirname(worker), "cornstarch-console")
    for args in conversions(json.load(open(f"{path}/config.json"))):
        to = f"{path}.{'.'.join(args)}"
        r = subprocess.run([console, "model", "convert", path, to] + args, capture_output=True, text=True)
        assert r.returncode == 0, f"convert {args}: {r.stderr}"
        try:
            measure, limit = (angle_of, 0.02) if args[0] == "--dtype" else (deviation_of, LIMIT.get(os.path.basename(source), 1e-4))
            apart = measure(load(to, source), golden, got)
            assert apart <= limit, f"off by {apart:.3g}"
        except AssertionError as e:
            raise AssertionError(f"convert {args}: {e}")
        done.append(args[-1])
        shutil.rmtree(to)
    return done


def check_model(worker, out, source):
    name = os.path.basename(source.rstrip("/"))
    with_files_dir = f"{out}/{name}.source"
    files = with_files(source, with_files_dir)
    export(worker, with_files_dir, f"{out}/{name}")
    path = folder_of(f"{out}/{name}", source)
    golden, got = load_file(f"{source}/golden.safetensors"), load_file(f"{out}/{name}/after.safetensors")
    deviation = deviation_of(load(path, source), golden, got)
    done = check_conversions(worker, path, source, golden, got)
    for file in [f for f in files if "last" not in got or f == PROCESSORS[0]]:
        assert os.path.exists(f"{path}/{file}"), f"{file} is missing"
        assert open(f"{path}/{file}", "rb").read() == open(f"{with_files_dir}/{file}", "rb").read(), f"{file} is changed"
    return f"{os.path.basename(path):16s} {deviation:.2g}, converted: {' '.join(done)}", deviation, LIMIT.get(name, 1e-4)


def check_adapter(worker, out, adapter, source):
    from peft import PeftModel
    export(worker, source, f"{out}/adapter", adapter)
    golden, got = load_file(f"{adapter}/golden.safetensors"), load_file(f"{out}/adapter/after.safetensors")
    merged = deviation_of(load(f"{out}/adapter/llm", source), golden, got)
    beside = PeftModel.from_pretrained(load(source, source), f"{out}/adapter/llm.adapter").eval()
    names = {k.replace("base_model.model.", "").replace(".default", "") for k, _ in beside.named_parameters() if "lora_" in k}
    written = {k.replace("base_model.model.", "") for k in load_file(f"{out}/adapter/llm.adapter/adapter_model.safetensors")}
    assert names == written, f"PEFT has {sorted(names ^ written)[:4]} apart"
    with torch.no_grad():
        logits = beside(input_ids=golden["in.ids"]).logits
    apart = float((logits.reshape(-1, logits.shape[-1])[got["rows"].long()] - got["logits"]).abs().max())
    return f"merged {merged:.2g}, PEFT {apart:.2g}", max(merged, apart), 1e-4


def main(worker, out, args):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    bad = 0
    adapter = args[1] if args[0] == "--adapter" else None
    for source in args[2:] if adapter else args:
        try:
            said, deviation, limit = check_adapter(worker, out, adapter, source) if adapter else check_model(worker, out, source)
            assert deviation <= limit, f"off by {deviation:.3g}"
            print(f"{os.path.basename(source):20s} ok   {said}", flush=True)
        except Exception as e:
            bad += 1
            print(f"{os.path.basename(source):20s} BAD  {type(e).__name__}: {str(e)[:400]}", flush=True)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
