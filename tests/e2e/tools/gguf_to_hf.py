"""A GGUF file of a Llama as a directory of Hugging Face: config.json, model.safetensors (float32), tokenizer.json.

  gguf_to_hf.py MODEL.gguf DIR

Needs numpy alone. Tensors in F32, F16, BF16, Q8_0, Q4_0 and Q4_1 become the float32 values that they stand for; the rows of
queries and keys, which GGUF keeps in pairs of the rotation, are put back into halves. Tokenizers of the kind "gpt2".
"""
import json, os, struct, sys
import numpy as np

# of metadata, by the number of the type; 8 and 9 are texts and lists
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
CONTROL = 3  # type of a token
WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
OF_BLOCK = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
# what llama.cpp calls the way that texts are split
DIGITS = {"type": "Digits", "individual_digits": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
SPLITS = {"smollm": [DIGITS, BYTES], "gpt-2": [BYTES]}


class Reader:
    def __init__(self, path):
        self.raw, self.at = np.memmap(path, np.uint8, "r"), 0
        magic, version, n_tensors, n_keys = self.take("4s"), self.take("I"), self.take("Q"), self.take("Q")
        assert magic == b"GGUF" and version in (2, 3), f"{path} is no GGUF of version 2 or 3"
        self.meta = {self.text(): self.value(self.take("I")) for _ in range(n_keys)}
        self.tensors = {}
        for _ in range(n_tensors):
            name = self.text()
            dims = [self.take("Q") for _ in range(self.take("I"))]
            self.tensors[name] = dims[::-1], self.take("I"), self.take("Q")
        align = self.meta.get("general.alignment", 32)
        self.base = -(-self.at // align) * align

    def take(self, kind):
        size = struct.calcsize("<" + kind)
        value, = struct.unpack("<" + kind, self.raw[self.at:self.at + size].tobytes())
        self.at += size
        return value

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.raw[self.at - n:self.at].tobytes().decode()

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            of, n = self.take("I"), self.take("Q")
            return [self.value(of) for _ in range(n)]
        return self.take(SCALARS[kind])

    def tensor(self, name):
        """Values in float32, of the shape that they have in row order."""
        dims, kind, offset = self.tensors[name]
        size, block, values = KINDS[kind]
        n = int(np.prod(dims))
        begin = self.base + offset
        rows = np.frombuffer(self.raw[begin:begin + n // block * size].tobytes(), np.uint8).reshape(-1, size)
        return values(rows).astype(np.float32).reshape(dims)


def half(rows, at):
    return np.ascontiguousarray(rows[:, at:at + 2]).view(np.float16).astype(np.float32)


def nibbles(rows, at):
    """16 bytes: the low halves are the first 16 values of a block, the high ones the others."""
    return np.concatenate([rows[:, at:] & 15, rows[:, at:] >> 4], 1).astype(np.float32)


# number of the type: bytes of a block, values of it, what they are
KINDS = {
    0: (4, 1, lambda r: r.view(np.float32)),
    1: (2, 1, lambda r: r.view(np.float16)),
    30: (2, 1, lambda r: (r.view(np.uint16).astype(np.uint32) << 16).view(np.float32)),
    2: (18, 32, lambda r: half(r, 0) * (nibbles(r, 2) - 8)),
    3: (20, 32, lambda r: half(r, 0) * nibbles(r, 4) + half(r, 2)),
    8: (34, 32, lambda r: half(r, 0) * np.ascontiguousarray(r[:, 2:]).view(np.int8)),
}


def in_halves(rows, n_heads):
    """Of each head the rows 0, 2, 4 ... and then 1, 3, 5 ..."""
    return rows.reshape(n_heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def tensors_of(gguf, n_heads, n_kv_heads):
    out = {}
    for name in gguf.tensors:
        values = gguf.tensor(name)
        if name in WHOLE:
            out[WHOLE[name]] = values
            continue
        _, block, part, kind = name.split(".")
        if part in ("attn_q", "attn_k"):
            values = in_halves(values, n_heads if part == "attn_q" else n_kv_heads)
        out[f"model.layers.{block}.{OF_BLOCK[part]}.{kind}"] = values
    return out


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for values in tensors.values():
            f.write(np.ascontiguousarray(values, "<f4").tobytes())


def config_of(gguf, tensors):
    meta = {k.removeprefix("llama."): v for k, v in gguf.meta.items()}
    token = lambda name: meta.get(f"tokenizer.ggml.{name}_token_id")
    n_heads = meta["attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "float32",
        "hidden_size": meta["embedding_length"], "intermediate_size": meta["feed_forward_length"],
        "num_hidden_layers": meta["block_count"], "num_attention_heads": n_heads,
        "num_key_value_heads": meta.get("attention.head_count_kv", n_heads),
        "max_position_embeddings": meta["context_length"], "vocab_size": tensors["model.embed_tokens.weight"].shape[0],
        "rms_norm_eps": float(f"{meta['attention.layer_norm_rms_epsilon']:.6g}"), "rope_theta": meta.get("rope.freq_base", 10000.0),
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "bos_token_id": token("bos"), "eos_token_id": token("eos"), "pad_token_id": token("padding"),
    }


def tokenizer_of(gguf):
    meta = {k.removeprefix("tokenizer.ggml."): v for k, v in gguf.meta.items()}
    assert meta["model"] == "gpt2" and meta["pre"] in SPLITS, f"a tokenizer of the kind {meta['model']}, {meta.get('pre')} is not known here"
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [dict(id=i, content=t, special=True, **flags) for i, (t, kind) in enumerate(zip(meta["tokens"], meta["token_type"])) if kind == CONTROL]
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": SPLITS[meta["pre"]]}, "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(meta["tokens"])}, "merges": [m.split(" ", 1) for m in meta["merges"]]},
    }
    named = {f"{k}_token": meta["tokens"][meta[f"{v}_token_id"]] for k, v in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))}
    settings = dict(named, tokenizer_class="PreTrainedTokenizerFast", clean_up_tokenization_spaces=False,
                    add_bos_token=meta.get("add_bos_token", False), chat_template=gguf.meta["tokenizer.chat_template"])
    return document, settings


def main(path, out):
    gguf = Reader(path)
    assert gguf.meta["general.architecture"] == "llama", f"{path} holds no Llama"
    os.makedirs(out)
    tensors = tensors_of(gguf, gguf.meta["llama.attention.head_count"], gguf.meta["llama.attention.head_count_kv"])
    document, settings = tokenizer_of(gguf)
    write_safetensors(f"{out}/model.safetensors", tensors)
    for name, value in (("config", config_of(gguf, tensors)), ("tokenizer", document), ("tokenizer_config", settings)):
        json.dump(value, open(f"{out}/{name}.json", "w"), ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
